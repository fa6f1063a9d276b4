"""What the demo assistant says about outcomes: Markdown that quotes what the tools returned."""

from collections.abc import Callable, Iterable
from typing import Any

from .demo_outcomes import Done


def told(all_done: Iterable[Done]) -> str:
    """The answer to a turn: what came of each call, in the order of the calls; of a plan only how
    it stands at the end."""
    rows = list(all_done)
    last = {done.tool_id: done for done in rows}
    shown = (done for done in rows if done.tool_id != PLAN or done is last[PLAN])
    return "\n\n".join(told_of(done) for done in shown)


def told_of(done: Done) -> str:
    match done.ending:
        case "succeeded":
            return succeeded(done)
        case "failed":
            return f"{attempt(done)} **failed**. The tool said:\n\n{quoted(done.failure)}"
        case "denied":
            return denied(done)
        case "refused":
            return f"{attempt(done)} was not run. {done.text}"
        case "not_run":
            return f"{attempt(done)} did not happen. {done.text}"
        case "unknown":
            return (
                f"{attempt(done)} has an **unknown outcome**: it was sent, but no answer came "
                "back. It may or may not have taken effect, so please look before it is repeated."
            )


def denied(done: Done) -> str:
    """The person's word stands: it is acknowledged, and nothing is asked again."""
    left = f"Understood. {attempt(done)} was denied, so I left it alone."
    return f"{left} You said:\n\n{quoted(done.persons_word)}" if done.persons_word else left


def attempt(done: Done) -> str:
    """What was tried, as the subject of a sentence."""
    for name, (verb, argument) in ATTEMPTS.items():
        if done.tool_id.endswith(name) and (not argument or done.argument(argument)):
            return f"{verb} {strong(done.argument(argument))}".strip() if argument else verb
    return f"The tool `{done.tool_id}`"


PLAN = "make-plan"
ATTEMPTS: dict[str, tuple[str, str]] = {
    "list_notes": ("Listing the notes", ""),
    "read_note": ("Reading", "title"),
    "search_notes": ("Searching the notes for", "query"),
    "create_note": ("Creating", "title"),
    "append_to_note": ("Adding to", "title"),
    "delete_note": ("Deleting", "title"),
    "search_archive": ("Searching the archive for", "query"),
    "read_locked_note": ("Reading the locked note", ""),
}


def succeeded(done: Done) -> str:
    """What a tool returned: in words if it is one of the notebook's or our own, else as it is."""
    if opening := OWN.get(done.tool_id):
        return f"{opening}\n\n{quoted(done.text)}"
    for name, tell in TELLERS.items():
        if done.tool_id.endswith(name):
            try:
                return tell(done, done.result)
            except (KeyError, TypeError):
                break
    return f"{attempt(done)} answered:\n\n{fenced(done.text)}"


def listed(done: Done, result: dict[str, Any]) -> str:
    notes = result["notes"]
    if not notes:
        return "The notebook is empty. Try: *create a note called Ideas: a boat made of paper*."
    lines = [f"- {strong(note['title'])}: {one_line(note['excerpt'])}" for note in notes]
    return f"There {counted(len(notes), 'note')} in the notebook:\n\n" + "\n".join(lines)


def found(done: Done, result: dict[str, Any]) -> str:
    notes, words = result["notes"], one_line(done.argument("query"))
    if not notes:
        return f"No note mentions *{words}*."
    lines = [f"- {strong(note['title'])}: {one_line(note['excerpt'])}" for note in notes]
    return f"There {counted(len(notes), 'note')} with *{words}*:\n\n" + "\n".join(lines)


def read(done: Done, result: dict[str, Any]) -> str:
    text = str(result["text"])
    body = quoted(text) if text.strip() else "*This note has no text yet.*"
    return f"### {one_line(result['title'])}\n\n{body}"


def created(done: Done, result: dict[str, Any]) -> str:
    text = str(result["text"])
    if not text:
        return f"Done: the note {strong(result['title'])} is there, still without text."
    return f"Done: the note {strong(result['title'])} is there and says:\n\n{quoted(text)}"


def appended(done: Done, result: dict[str, Any]) -> str:
    return f"Done: {strong(result['title'])} now says:\n\n{quoted(str(result['text']))}"


def deleted(done: Done, result: dict[str, Any]) -> str:
    gone = f"Done: {strong(result['title'])} is deleted."
    text = str(result["deleted_text"])
    return f"{gone} In case you want it back, it said:\n\n{quoted(text)}" if text else gone


def archived(done: Done, result: dict[str, Any]) -> str:
    lines, words = result["found"], one_line(done.argument("query"))
    volumes = result["volumes_searched"]
    if not lines:
        return f"I went through all {volumes} volumes of the archive; none mentions *{words}*."
    rows = [f"| {cell(line['volume'])} | {cell(line['line'])} |" for line in lines]
    table = "\n".join(["| Volume | Line |", "|---|---|", *rows])
    return f"{volumes} volumes searched; this is what they say about *{words}*:\n\n{table}"


# What is said before the words that one of the application's own tools returned.
OWN = {
    PLAN: "That was the plan. I only ticked it: a model would have done the work in between.",
    "current-time": "It is:",
    "remember": "You find it under *What it remembers about you* in your menu:",
    "recall": "This is what I remember:",
    "ask-person": "Thank you. You said:",
    "search-conversations": "In your other chats:",
    "list-services": "These are the services:",
}
TELLERS: dict[str, Callable[[Done, dict[str, Any]], str]] = {
    "list_notes": listed,
    "search_notes": found,
    "read_note": read,
    "create_note": created,
    "append_to_note": appended,
    "delete_note": deleted,
    "search_archive": archived,
}


def counted(number: int, noun: str) -> str:
    return f"is **1 {noun}**" if number == 1 else f"are **{number} {noun}s**"


def quoted(text: str) -> str:
    """A block quote: whatever Markdown the text has stays inside it."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def fenced(text: str) -> str:
    """A code block whose fence the text cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    language = "json" if text.lstrip().startswith(("{", "[")) else ""
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def strong(text: object) -> str:
    return f"**{one_line(text)}**"


def cell(text: object) -> str:
    return one_line(text).replace("|", "\\|")
