"""A chat as Markdown.

Texts of people and models are Markdown and stay as they were written. All other text that is not
ours (names, arguments, results, reasoning) is untrusted. It is in code spans, or in fences longer
than any row of backticks in it, so it cannot end its block and pose as a part of the chat. For the
same reason, a block that a text leaves open is closed before the next one begins.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import assert_never
from urllib.parse import quote

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from markdown_it import MarkdownIt

from chatapp.models import Part
from chatapp.rendering.hidden_characters import write_hidden
from chatapp.rendering.pages.fragments import describe_thought

from .values import (
    CallPart,
    CallValues,
    ExportedChat,
    ExportedMessage,
    ExportedPart,
    FilePart,
    NoticePart,
    Piece,
    ReasoningPart,
    SourcesPart,
    TextPart,
    describe_ending,
)

# Blocks alone decide what a text leaves open, and inline text may take long to parse.
_BLOCKS = MarkdownIt("commonmark")
_BLOCKS.core.ruler.disable("inline")
_SENTINEL = "x"
# Only a fence or HTML can reach beyond a blank line and a line without indentation.
_MAY_STAY_OPEN = re.compile(r"```|~~~|<")
_BACKTICKS = re.compile(r"`+")
# What would be markup, or the beginning of an address that some programs make a link.
_MARKUP = re.compile(r"([\\`*_\[\]<>&#|~!$]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def write_markdown(chat: ExportedChat) -> str:
    blocks = [f"# {_write_plain(chat.title)}", _format_time(chat.created_at)]
    if chat.project:
        named = _("Project: %(name)s") % {"name": _write_plain(chat.project)}
        blocks.append(named)
    for message in chat.messages:
        blocks.extend(_write_message(message, chat))
    return "\n\n".join(blocks) + "\n"


def _format_time(time: datetime) -> str:
    local = localtime(time)
    return f"{date_format(local, 'DATETIME_FORMAT')} {local:%Z}"


def _write_message(message: ExportedMessage, chat: ExportedChat) -> Iterator[str]:
    yield f"## {_name_writer(message, chat)} · {_format_time(message.created_at)}"
    if message.instructions:
        yield f"**{_('Instructions from the program')}**"
        yield fence(message.instructions)
    for part in message.parts:
        yield from _write_part(part, chat.address)
    if message.turn is None:
        return
    if message.turn.is_live:
        yield f"*{_('This answer was not finished when the chat was exported.')}*"
    elif ending := describe_ending(message.turn.state):
        yield f"*{ending}*"


def _name_writer(message: ExportedMessage, chat: ExportedChat) -> str:
    if message.role == "user":
        is_own = not message.is_of_program
        return _write_plain(chat.owner) if is_own else _("Message from a program")
    model = message.turn.model if message.turn else ""
    return f"{_('Assistant')} ({quote_code(model)})" if model else _("Assistant")


def _write_part(part: ExportedPart, address: str) -> Iterator[str]:
    match part:
        case TextPart():
            yield close_open_block(part.text)
        case ReasoningPart():
            yield f"**{describe_thought(part.seconds)}**"
            yield fence(part.text)
        case FilePart():
            described = f": {quote_code(part.description)}" if part.description else ""
            link = _write_link(part.name, address + part.path)
            yield f"{_('File')}: {link}{described}"
        case SourcesPart():
            yield f"**{_('Sources')}**"
            yield "\n".join(f"- {_write_link(title or url, url)}" for url, title in part.sources)
        case NoticePart():
            yield from _write_notice(part)
        case CallPart():
            yield from _write_call(part, address)
        case _:
            assert_never(part)


def _write_notice(part: NoticePart) -> Iterator[str]:
    labels = {Part.NoticeKind.ERROR: _("Error:"), Part.NoticeKind.STOPPED: ""}
    label = labels.get(Part.NoticeKind(part.kind or "info"), _("Note:"))
    said = _write_plain(f"{part.text} {part.hint}")
    yield f"> **{label}** {said}" if label else f"> {said}"
    if part.summary:
        yield fence(part.summary)


def _write_call(call: CallPart, address: str) -> Iterator[str]:
    named = f"{quote_code(call.title)} ({quote_code(call.tool_id)}, {quote_code(call.service)})"
    lines = [f"**{_('Tool call')}** {named}", *(f"- {_write_plain(each)}" for each in call.lines)]
    yield "\n".join([lines[0], "", *lines[1:]])
    if call.values is not None:
        yield from _write_values(call.values, address)


def _write_values(values: CallValues, address: str) -> Iterator[str]:
    yield _("Values")
    yield _fence_json(values.arguments)
    for piece in values.pieces:
        yield from _write_piece(piece, address)
    if values.error:
        yield _("Error")
        yield fence(values.error)


def _fence_json(text: str) -> str:
    try:
        indented = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return fence(text)
    return fence(indented, "json")


def _write_piece(piece: Piece, address: str) -> Iterator[str]:
    label = _write_plain(piece.label)
    if piece.kind not in ("text", "json"):
        about = f"{label} {quote_code(piece.about)}"
        yield f"{about} <{address}{piece.path}>" if piece.path else about
        return
    yield label
    yield fence(piece.text, "json" if piece.kind == "json" else "")
    if piece.left_out:
        number = piece.left_out
        yield ngettext(
            "%(number)s more character is not shown.",
            "%(number)s more characters are not shown.",
            number,
        ) % {"number": number}


def fence(text: str, language: str = "") -> str:
    """Return the text as a code block that nothing in it can end."""
    written = write_hidden(text)
    mark = "`" * max(3, _count_backticks(written) + 1)
    return f"{mark}{language}\n{written}\n{mark}"


def quote_code(text: str) -> str:
    """Return the text on one line, as a code span that nothing in it can end."""
    line = write_hidden(" ".join(text.split()))
    mark = "`" * (_count_backticks(line) + 1)
    room = " " if "`" in line else ""
    return f"{mark}{room}{line}{room}{mark}" if line else ""


def _count_backticks(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _write_plain(text: str) -> str:
    """Return the text on one line, with what would be markup escaped."""
    return _MARKUP.sub(r"\\\1", write_hidden(" ".join(text.split())))


def _write_link(name: str, url: str) -> str:
    # Angle brackets, spaces and backslashes could end the address.
    return f"[{_write_plain(name)}](<{quote(url, safe='!#$%&()*+,/:;=?@[]~')}>)"


def close_open_block(text: str) -> str:
    """Return the Markdown so that a paragraph after it is outside of every block of it."""
    if not _MAY_STAY_OPEN.search(text) or _is_closed(text):
        return text
    last = _BLOCKS.parse(text)[-1:]
    if last and last[0].type == "fence":
        closed = f"{text}\n{last[0].markup}"
        if _is_closed(closed):
            return closed
    return fence(text, "markdown")


def _is_closed(text: str) -> bool:
    end = _BLOCKS.parse(f"{text}\n\n{_SENTINEL}")[-3:]
    found = [(token.type, token.level, token.content) for token in end]
    return found == [
        ("paragraph_open", 0, ""),
        ("inline", 1, _SENTINEL),
        ("paragraph_close", 0, ""),
    ]
