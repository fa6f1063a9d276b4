"""The demo assistant's script: from a request's history to its next step. Pure, no memory."""

import json
import re
from dataclasses import dataclass
from typing import assert_never

from . import demo_talk as talk
from .demo_answers import strong, told
from .demo_outcomes import ThisTurn, this_turn
from .demo_own_sentences import own_wish
from .demo_sentences import understand
from .demo_wishes import (
    AppendToNote,
    AskForHelp,
    CreateNote,
    DeleteNotes,
    ListNotes,
    ListTools,
    ReadLockedNote,
    ReadNotes,
    SearchArchive,
    SearchNotes,
    ShowEverything,
    ThinkAbout,
    UseTools,
    Wish,
)
from .request import ModelRequest, ToolSpec

READ_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    call_id: str
    tool_id: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What the assistant does now: it thinks, talks, and asks for the calls, all together."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A call that the script wants: one of the notebook's tools, or any tool by its exact id."""

    tool: str
    arguments: str
    is_exact: bool = False


class NotOffered(Exception):
    """A tool that the script needs is not among those of the request."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask.tool)
        self.ask = ask


def next_step(request: ModelRequest) -> NextStep:
    turn = this_turn(request.history)
    wish = own_wish(turn.question) or understand(turn.question)
    asks = next_asks(wish, turn)
    if not asks:
        return NextStep(text=last_words(wish, turn, request.tools))
    try:
        calls = tuple(
            Call(
                call_id=f"demo_{turn.calls_before + number}",
                tool_id=offered(ask, request.tools),
                arguments=ask.arguments,
            )
            for number, ask in enumerate(asks)
        )
    except NotOffered as missing:
        return without_the_tool(wish, turn, missing.ask, request.tools)
    return NextStep(reasoning=reasoning(wish, turn), text=announcement(wish, turn), calls=calls)


def next_asks(wish: Wish, turn: ThisTurn) -> tuple[Ask, ...]:
    """The calls of the next round. A call that did not go well ends the script: nothing insists."""
    if not turn.rounds:
        return first_asks(wish)
    if not turn.has_gone_well:
        return ()
    match wish:
        case UseTools():
            return used(wish, len(turn.rounds))
        case SearchNotes(reads_found=True) | ListNotes(reads_all=True) if len(turn.rounds) == 1:
            return tuple(notebook("read_note", title=title) for title in titles_found(turn))
    return ()


def first_asks(wish: Wish) -> tuple[Ask, ...]:
    match wish:
        case ListNotes():
            return (notebook("list_notes"),)
        case SearchNotes(words=words):
            return (notebook("search_notes", query=words),)
        case ReadNotes(titles=titles):
            return tuple(notebook("read_note", title=title) for title in titles)
        case CreateNote(title=title, text=text):
            return (notebook("create_note", title=title, text=text),)
        case AppendToNote(title=title, text=text):
            return (notebook("append_to_note", title=title, text=text),)
        case DeleteNotes(titles=titles):
            return tuple(notebook("delete_note", title=title) for title in titles)
        case SearchArchive(words=words):
            return (notebook("search_archive", query=words),)
        case ReadLockedNote():
            return (notebook("read_locked_note"),)
        case ThinkAbout(subject=subject):
            return (notebook("search_notes", query=main_word(subject)),)
        case UseTools():
            return used(wish, 0)
        case ShowEverything() | ListTools() | AskForHelp():
            return ()
        case _:
            assert_never(wish)


def notebook(tool: str, **arguments: str) -> Ask:
    return Ask(tool=tool, arguments=json.dumps(arguments, ensure_ascii=False))


def used(wish: UseTools, number: int) -> tuple[Ask, ...]:
    calls = wish.rounds[number] if number < len(wish.rounds) else ()
    return tuple(Ask(tool=use.tool_id, arguments=use.arguments, is_exact=True) for use in calls)


def offered(ask: Ask, tools: tuple[ToolSpec, ...]) -> str:
    """The id under which a tool is offered; of several with that ending the notebook's own."""
    names = [tool.name for tool in tools]
    if ask.is_exact:
        fitting = [name for name in names if name == ask.tool]
    else:
        fitting = [name for name in names if f"_{name}".endswith(f"_{ask.tool}")]
        fitting.sort(key=lambda name: not name.startswith("notebook_"))
    if not fitting:
        raise NotOffered(ask)
    return fitting[0]


def titles_found(turn: ThisTurn) -> list[str]:
    notes = turn.rounds[0][0].result.get("notes")
    if not isinstance(notes, list):
        return []
    titles = [note.get("title") for note in notes if isinstance(note, dict)]
    return [title for title in titles if isinstance(title, str)][:READ_AT_ONCE]


def main_word(subject: str) -> str:
    words = re.findall(r"\w+", subject)
    return max(words, key=len, default=subject)[:100]


def reasoning(wish: Wish, turn: ThisTurn) -> str:
    if isinstance(wish, ThinkAbout) and not turn.rounds:
        return talk.thoughts(wish.subject, main_word(wish.subject))
    return ""


def announcement(wish: Wish, turn: ThisTurn) -> str:
    """One line before the calls; the application shows the calls themselves."""
    if turn.rounds:
        return "I will read them." if not isinstance(wish, UseTools) else "Now the next one."
    match wish:
        case SearchArchive():
            return "I will go through the archive. This takes a few seconds."
        case DeleteNotes(titles=titles) if len(titles) > 1:
            return f"I will ask to delete {' and '.join(strong(title) for title in titles)}."
        case DeleteNotes(titles=titles) | ReadNotes(titles=titles) if len(titles) == 1:
            verb = "ask to delete" if isinstance(wish, DeleteNotes) else "read"
            return f"I will {verb} {strong(titles[0])}."
        case ReadNotes(titles=titles):
            return f"I will read {len(titles)} notes at once."
        case CreateNote(title=title):
            return f"I will ask to create {strong(title)}."
        case UseTools():
            return ""
    return "I will look in the notebook."


def last_words(wish: Wish, turn: ThisTurn, tools: tuple[ToolSpec, ...]) -> str:
    """The answer that ends the turn."""
    if turn.rounds:
        answer = told(turn.all_done)
        if isinstance(wish, ThinkAbout):
            return f"{answer}\n\n{talk.conclusion(wish.subject)}"
        return answer
    match wish:
        case ShowEverything():
            return talk.tour(tools)
        case ListTools():
            return talk.tool_table(tools)
    return talk.help_text()


def without_the_tool(wish: Wish, turn: ThisTurn, ask: Ask, tools: tuple[ToolSpec, ...]) -> NextStep:
    answer = talk.not_offered(ask.tool, tools) if ask.is_exact else talk.NO_NOTEBOOK
    said = told(turn.all_done)
    return NextStep(reasoning=reasoning(wish, turn), text=f"{said}\n\n{answer}".strip())
