"""The messages of a shared link as HTML. It has no forms, and no ids of calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from chatapp.rendering.exports.shared_chat import (
    SharedCall,
    SharedFile,
    SharedMessage,
    SharedPart,
)
from chatapp.rendering.exports.values import SourcesPart, TextPart
from chatapp.rendering.figures.footnote_links import link_footnotes
from chatapp.rendering.hidden_characters import draw_hidden, has_hidden
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.rendering.page_values import SourcesView
from chatapp.rendering.pages.fragments import render_part
from chatapp.rendering.results import format_json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """A message with its parts as HTML. `text` is that of a person, which is not Markdown."""

    is_question: bool
    created_at: datetime
    files: tuple[SafeString, ...]
    text: str
    parts: SafeString
    ending: str


def render_messages(messages: Iterable[SharedMessage], token: str, owner: str) -> SafeString:
    context = {"blocks": [_build_block(each, token) for each in messages], "owner": owner}
    return SafeString(render_to_string("shared/_messages.html", context))


def _build_block(message: SharedMessage, token: str) -> MessageBlock:
    is_question = message.role == "user"
    # The files of a question stand above its text.
    above = [each for each in message.parts if is_question and isinstance(each, SharedFile)]
    texts = [each.text for each in message.parts if is_question and isinstance(each, TextPart)]
    below = [] if is_question else message.parts
    return MessageBlock(
        is_question=is_question,
        created_at=message.created_at,
        files=tuple(SafeString(_render_file(each, token)) for each in above),
        text="\n\n".join(texts),
        parts=_join(
            _render_part(message, part, position, token) for position, part in enumerate(below)
        ),
        ending=message.ending,
    )


def _join(fragments: Iterable[str]) -> SafeString:
    return SafeString("".join(fragments))


def _render_part(message: SharedMessage, part: SharedPart, position: int, token: str) -> str:
    match part:
        case TextPart():
            place = f"{message.id}-{position}"
            html = SafeString(link_footnotes(render_markdown(part.text), f"text-{place}"))
            return render_to_string("shared/_text.html", {"html": html})
        case SourcesPart():
            view = SourcesView(step=0, position=position, sources=part.sources)
            return render_part(message.id, view)
        case SharedFile():
            return _render_file(part, token)
        case SharedCall():
            return _render_call(part)
        case _:
            assert_never(part)


def _render_file(file: SharedFile, token: str) -> str:
    # An attribute cannot draw a hidden character.
    described = "" if has_hidden(file.description) else file.description
    context = {
        "file": file,
        "name": draw_hidden(file.name),
        "description": draw_hidden(file.description),
        "alt": " ".join(described.split()) or file.name,
        "address": reverse("shared-file", args=[token, file.id]) if file.id else "",
    }
    return render_to_string("shared/_file.html", context)


def _render_call(call: SharedCall) -> str:
    context = {
        "state": call.state,
        "ending": call.state.label,
        "title": draw_hidden(call.title),
        "service": draw_hidden(call.service),
        "values": call.values,
    }
    if call.values is not None:
        arguments = format_json_text(call.values.arguments) or call.values.arguments
        context["arguments"] = "" if arguments == "{}" else draw_hidden(arguments)
        context["pieces"] = [
            {
                "label": draw_hidden(piece.label),
                "text": draw_hidden(piece.text or piece.about),
                "is_text": piece.kind in ("text", "json"),
                "left_out": piece.left_out,
            }
            for piece in call.values.pieces
        ]
        context["error"] = draw_hidden(call.values.error)
    return render_to_string("shared/_call.html", context)
