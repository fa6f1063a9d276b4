"""What a scripted model says: one `Answer` a request, in order, from a test or a JSON file."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

Cut = Literal["end", "reset", "hang"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A call that the scripted model makes. `arguments` may be an object or any text."""

    name: str
    arguments: Any = field(default_factory=dict)
    id: str = ""

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. What is said comes in the order reasoning, text, refusal, tools; then what the
    answers in `then` say, of which nothing else counts.

    `cut` breaks the stream off after `cut_after` events (before the first byte when negative).
    `write` splits the bytes of the stream into HTTP chunks of that size, or at those places.
    Errors have a `code` and a `message`; each form writes them, and `content_type`, as its own.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tools: tuple[Tool, ...] = ()
    then: tuple["Answer", ...] = ()
    is_interleaved: bool = False
    finish: Literal["", "length", "content_filter"] = ""
    chunk: int = 5
    delay_ms: float = 0
    first_byte_ms: float = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    document: str = ""
    content_type: str = ""
    cut: Cut | None = None
    cut_after: int = 3
    in_stream_error: dict[str, Any] = field(default_factory=dict)
    is_strange: bool = False
    is_sloppy: bool = False
    events: tuple[Any, ...] = ()
    write: int | tuple[int, ...] | None = None

    @property
    def rounds(self) -> tuple["Answer", ...]:
        return (self, *self.then)

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        return tuple(tool for each in self.rounds for tool in each.tools)

    @property
    def is_document(self) -> bool:
        """Whether this is no stream but an error or a page."""
        return self.status != 200 or bool(self.document)


FALLBACK = Answer(text="The script has no more answers.")


def answer_from_json(value: dict[str, Any]) -> Answer:
    """An answer as a script file has it; a misspelt word is an error, not a silent default."""
    unknown = value.keys() - {each.name for each in fields(Answer)}
    if unknown:
        raise ValueError(f"A script answer has no {', '.join(sorted(unknown))}.")
    tools = tuple(Tool(**tool) for tool in value.get("tools", []))
    then = tuple(map(answer_from_json, value.get("then", [])))
    events = tuple(value.get("events", []))
    return Answer(**{**value, "tools": tools, "then": then, "events": events})


def read_script(path: Path) -> list[Answer]:
    return [answer_from_json(value) for value in json.loads(path.read_text())]


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
