"""The texts of the demo assistant. A name in braces stands for a value."""

TOOLS = "{tools}"
HELP = """\
I am the **demo assistant**: a small script, not a language model. I understand a few sentences. \
The tools that I call are real, and so are the approvals. You can ask me:

- *what notes are there*
- *read Groceries and Ideas*, two calls at once
- *find notes about milk and read them*, one call after another
- *search the archive for lighthouse*, a slow tool with progress
- *create a note called Plans: a boat made of paper*, a low-risk change that runs without asking
- *add oat milk to Groceries*, which asks you; choose “Allow…” to allow it in advance
- *delete the note Old ideas*, which asks you every time
- *read the locked note*, a tool that fails
- *think about dinner*, with some reasoning first
- *show me everything you can do*, a long answer
- *what time is it in Tokyo*, and *which services are there*
- *remember that reports go out on Mondays*, then *what do you remember*
- *make a plan: collect, compare and report*, with steps that are ticked one by one
- *ask me something*, a form in the chat
- *search my chats for milk*
- *use SERVICE_TOOL {"name": "value"}*, any offered tool by its id

To use a real model, an admin sets `OPENAI_API_KEY` in the environment and restarts the \
application. You can then choose the model where you chose this one."""
TOUR = rf"""# Everything I can do

{HELP}

1. I look for a pattern that fits your sentence.
2. I call tools:
   - one, or several at once,
   - or one after another.
3. I report the results, word by word, with **strong**, *emphasised* and ~~deleted~~ text,
   `code` and [links](https://modelcontextprotocol.io/).

> The text of a note is shown as a quotation.

## Tools in this chat

{TOOLS}

## Code

```python
def countersign(call: ToolCall, person: Person) -> Permit:
    # Nothing that can do harm runs until a person has approved it.
    if call.risk is Risk.LOW:
        return Permit(call, by="rule")
    return person.decide(call)
```

## Mathematics

The chance that at least one of $n$ careless calls does harm is $1 - (1 - p)^n$. It grows quickly:

$$
1 - (1 - 0.02)^{{50}} = 1 - \sum_{{k=0}}^{{50}} \binom{{50}}{{k}} (-0.02)^k \approx 0.64
$$"""

BEFORE_CALLS = "I will use a tool for that."
THOUGHTS = (
    "The request ends with “{query}”. A language model would interpret the whole request; this "
    "script only has patterns.\n\nThe notebook may have notes about that word, so I search there."
)
AFTER_THOUGHTS = "My reasoning is scripted. A language model would continue from here."
NOT_OFFERED = (
    "The tool `{tool_id}` is not offered in this chat. I am only the scripted demo assistant, so I "
    "cannot answer without it. Its service may be switched off, or it was not chosen for this "
    "chat.\n\n{tools}"
)
NO_OUTCOME = "The outcome is unknown: the conversation has no result of this call."
QUESTIONS = {
    "why": "To help you better.",
    "questions": [
        {"text": "How shall I answer?", "kind": "one", "options": ["In a sentence", "In a list"]},
        {"text": "What do you work on?", "kind": "several", "options": ["Notes", "Reports"]},
        {"text": "Anything else that I should know?", "kind": "text"},
    ],
}
