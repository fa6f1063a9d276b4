"""What the demo assistant says without asking a tool: help, a tour of Markdown, its thoughts."""

from collections.abc import Iterable

from .demo_answers import cell, one_line
from .request import ToolSpec

WHAT_TO_ASK = """\
You can ask me, in plain English:

- *what notes are there*
- *read Groceries and Ideas*, two calls at once
- *find notes about milk and read them*, one call after another
- *search the archive for lighthouse*, a slow tool with progress
- *add oat milk to Groceries*
- *create a note called Plans: a boat made of paper*
- *delete the note Old ideas*, which waits for your approval
- *read the locked note*, a tool that fails
- *think about dinner*, with some reasoning first
- *show me everything you can do*, a long answer
- *what time is it in Tokyo*, and *which services are there*
- *remember that reports go out on Mondays*, then *what do you remember*
- *make a plan: collect, compare and report*, which is ticked as it goes
- *ask me something*, a form in the chat
- *search my chats for milk*
- *use SERVICE_TOOL {"name": "value"}*, any offered tool by its id"""

WHAT_I_AM = (
    "I am the **demo assistant**: a small script, not a language model. I know a few sentences "
    "about the demo notebook and nothing else, but the tools that I call are real, and so are the "
    "approvals."
)

A_REAL_MODEL = (
    "To talk to a real model, an admin sets `OPENAI_API_KEY` in the environment and restarts the "
    "application; the model can then be chosen where this one is."
)

NO_NOTEBOOK = (
    "I would use the demo notebook for that, but the tool is not offered in this chat. Perhaps "
    "the service *Demo notebook* is switched off or was not chosen here; an admin can switch it "
    "on.\n\n"
    "I am only the scripted demo assistant, so I cannot answer without it."
)


def help_text() -> str:
    return f"{WHAT_I_AM}\n\n{WHAT_TO_ASK}\n\n{A_REAL_MODEL}"


def not_offered(tool_id: str, tools: Iterable[ToolSpec]) -> str:
    return f"No tool with the id `{one_line(tool_id)}` is offered here.\n\n{tool_table(tools)}"


def tool_table(tools: Iterable[ToolSpec]) -> str:
    """The tools that were offered with this request."""
    rows = [f"| `{tool.name}` | {cell(first_sentence(tool.description))} |" for tool in tools]
    if not rows:
        return "No tools are offered to me in this chat."
    return "\n".join(["| Tool | What it does |", "|---|---|", *rows])


def first_sentence(text: str) -> str:
    sentence = one_line(text).partition(". ")[0].rstrip(".")
    return sentence if len(sentence) <= 100 else sentence[:99] + "…"


def thoughts(subject: str, word: str) -> str:
    """Scripted, and says so: reasoning is shown in the chat as it would be for a real model."""
    return (
        f"The question is about “{subject}”. A language model would weigh meanings here; this "
        "script only has patterns.\n\n"
        f"The word that says most is probably “{word}”, because it is the longest one.\n\n"
        "What the notebook says about it is worth more than a guess, so that comes first."
    )


def conclusion(subject: str) -> str:
    return (
        f"That is all I can say about *{one_line(subject)}*: I looked in the notebook, and my "
        "reasoning is scripted. A real model would go on from here."
    )


def tour(tools: Iterable[ToolSpec]) -> str:
    """A long answer that has every kind of Markdown that the chat renders."""
    return f"{TOUR_BEFORE}\n\n{tool_table(tools)}\n\n{TOUR_AFTER}\n\n{A_REAL_MODEL}"


TOUR_BEFORE = f"""\
# Everything I can do

{WHAT_I_AM}

## Words

A paragraph streams in word by word. It can be **strong**, *emphasised*, ~~struck out~~ or \
`code`, and it can hold a [link](https://modelcontextprotocol.io/). Scroll up while it grows: the \
page stays where you are.

> A quotation keeps its own bar, over as many lines as it needs, so that a note's text is never \
mistaken for mine.

## Lists

1. First I look for a pattern that fits your sentence.
2. Then I ask for tools:
   - one,
   - or several at once,
   - or one after another.
3. At last I say what came of it.

## Tools in this chat"""

TOUR_AFTER = r"""## Code

```python
def countersign(call: ToolCall, person: Person) -> Permit:
    # Nothing that can do harm runs until a person has signed for it.
    if call.risk is Risk.LOW:
        return Permit(call, by="rule")
    return person.decide(call)
```

## Mathematics

The chance that at least one of $n$ careless calls does harm is $1 - (1 - p)^n$. It grows quickly:

$$
1 - (1 - 0.02)^{50} = 1 - \sum_{k=0}^{50} \binom{50}{k} (-0.02)^k \approx 0.64
$$

## What to try next

| If you want to see | say |
|---|---|
| an approval | *delete the note Old ideas* |
| parallel calls | *read Groceries and Ideas* |
| progress | *search the archive for lighthouse* |
| a failure | *read the locked note* |

---"""
