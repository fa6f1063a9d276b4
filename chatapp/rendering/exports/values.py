"""What the file of a chat contains, as plain values. Both formats are written from them.

The file has nothing that pages do not show to the owner of the chat: secrets among the values of a
call are masked, long results are cut, and bytes are links to this server.
"""

import html
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _

from chatapp.models import Approval, Member, Part, Review, ToolCall, Turn
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering import call_values, results
from chatapp.rendering.pages.fragments import OVER_WITHOUT_RUNNING
from chatapp.rendering.secret_mask import mask_secrets_in_json

_TAG = re.compile(r"<[^>]*>")


class ToolDetail(StrEnum):
    """How much of the tool calls a file has."""

    NONE = "none"
    OUTCOMES = "outcomes"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Markdown, as a person or a model wrote it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPart:
    text: str
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """An attachment or a picture that a model made. `path` is that of its page."""

    name: str
    origin: str
    media_type: str
    size: int
    path: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesPart:
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePart:
    """A sentence of Countersign; `summary` is set where it is about a summary of the chat."""

    kind: str
    text: str
    hint: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided about a call or its result; `by` is empty for a person who is gone."""

    outcome: str
    by: str
    at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of a result: text, or a file or link that `label` and `about` describe."""

    kind: Literal["text", "json", "image", "audio", "file", "link"]
    label: str
    text: str = ""
    left_out: int = 0
    about: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValues:
    """The arguments of a call as text, with secrets masked, and its result."""

    arguments: str
    pieces: tuple[Piece, ...]
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A tool call. `lines` say in words how it ended and who decided; `values` are set if the file
    has arguments and results."""

    id: str
    tool_id: str
    title: str
    service: str
    state: str
    approval: Decision | None
    policy_reason: str
    review: Decision | None
    resolution: str
    sent_at: datetime | None
    finished_at: datetime | None
    lines: tuple[str, ...]
    values: CallValues | None


ExportedPart = TextPart | ReasoningPart | FilePart | SourcesPart | NoticePart | CallPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMessage:
    """One message. `turn` is set for answers, and `instructions` are those of a program."""

    id: uuid.UUID
    parent: uuid.UUID | None
    is_shown: bool
    role: Literal["user", "assistant"]
    created_at: datetime
    is_of_program: bool
    instructions: str
    turn: Turn | None
    parts: tuple[ExportedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedParameters:
    """What the person chose for the model in this chat. None and "" are the model's settings."""

    effort: str = ""
    temperature: float | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedChat:
    """A chat as of one moment. `address` is the URL of this server without a path; `messages` are
    read while they are written, so they can be iterated once. `project` is the name of its project,
    if the person can use that."""

    id: uuid.UUID
    title: str
    owner: str
    address: str
    created_at: datetime
    active_at: datetime
    exported_at: datetime
    detail: ToolDetail
    messages: Iterator[ExportedMessage]
    project: str = ""
    parameters: ExportedParameters = ExportedParameters()


def describe_part(part: Part, detail: ToolDetail) -> ExportedPart | None:
    """Return a stored part as a page shows it, or None if a page does not show it."""
    match part.kind:
        case Part.Kind.TEXT if part.text:
            return TextPart(text=part.text)
        case Part.Kind.REASONING if part.text:
            return ReasoningPart(text=part.text, seconds=part.seconds)
        case Part.Kind.TOOL_CALL if part.tool_call is not None:
            return describe_call(part.tool_call, detail)
        case Part.Kind.COPIED_CALL:
            return _describe_copied_call(CopiedCall.read(part.copied_call), detail)
        case Part.Kind.FILE:
            kept = part.attachment
            return FilePart(
                name=str(kept),
                origin=kept.origin,
                media_type=kept.mime_type,
                size=kept.size,
                path=reverse("attachment", args=[kept.pk]),
                description=part.text,
            )
        case Part.Kind.SOURCES:
            found = tuple((each["url"], each["title"]) for each in part.sources or ())
            return SourcesPart(sources=found)
        case Part.Kind.NOTICE:
            summary = getattr(part, "summary", None)
            text = summary.text if summary else ""
            return NoticePart(kind=part.notice_kind, text=part.text, hint=part.hint, summary=text)
        case _:
            return None


def describe_ending(state: str) -> str:
    """Return how a turn in this state ended, empty if it did as it should."""
    match state:
        case Turn.State.STOPPED:
            return _("Stopped")
        case Turn.State.FAILED:
            return _("Interrupted")
        case _:
            return ""


def describe_call(call: ToolCall, detail: ToolDetail) -> CallPart:
    approval: Approval | None = getattr(call, "approval", None)
    review: Review | None = getattr(call, "review", None)
    return CallPart(
        id=str(call.pk),
        tool_id=call.tool_id,
        title=call_values.get_title(call),
        service=call_values.describe_service(call),
        state=call.state,
        approval=_describe_decision(approval) if approval else None,
        policy_reason=translate_reason(call.why),
        review=_describe_decision(review) if review else None,
        resolution=call.resolution,
        sent_at=call.sent_at,
        finished_at=call.finished_at,
        lines=_describe_outcome(call, approval, review),
        values=describe_values(call) if detail == ToolDetail.FULL else None,
    )


def _describe_copied_call(copied: CopiedCall, detail: ToolDetail) -> CallPart:
    """A fork has no approval and no times of a call that its first chat made."""
    return CallPart(
        id=copied.call_id,
        tool_id=copied.tool_id,
        title=copied.title,
        service=copied.service,
        state=copied.state,
        approval=None,
        policy_reason="",
        review=None,
        resolution="",
        sent_at=None,
        finished_at=None,
        lines=(call_values.describe_copied_state(copied),),
        values=describe_copied_values(copied) if detail == ToolDetail.FULL else None,
    )


def describe_copied_values(copied: CopiedCall) -> CallValues:
    values, result = results.build_copied_pieces(copied, "")
    return CallValues(
        arguments=read_html(values.text), pieces=(_describe_piece(result, None),), error=""
    )


def _describe_decision(row: Approval | Review) -> Decision:
    return Decision(
        outcome=row.state,
        by=_get_name(row.decided_by),
        at=row.decided_at,
        reason=row.reason,
    )


def _get_name(person: Member | None) -> str:
    return person.display_name if person else ""


def _describe_outcome(
    call: ToolCall, approval: Approval | None, review: Review | None
) -> tuple[str, ...]:
    """Return the sentences of the page about the outcome of a call and the decisions about it."""
    context = {
        "call": call,
        "approval": approval,
        "review": review,
        "why": translate_reason(call.why),
    }
    if call.state in OVER_WITHOUT_RUNNING:
        outcome = read_html(render_to_string("chat/_verdict_state.html", context))
    else:
        is_withheld = review and review.state not in (Review.State.OPEN, Review.State.GIVEN)
        outcome = ", ".join([call.get_state_display(), *([_("withheld")] if is_withheld else [])])
    decided = render_to_string("chat/_decided.html", context).split("</p>")
    reason = approval.reason if approval else ""
    lines = [outcome, reason and f"“{reason}”", *map(read_html, decided)]
    return tuple(" ".join(line.split()) for line in lines if line.strip())


def describe_values(call: ToolCall) -> CallValues:
    """Return the arguments and the result of a call as its page shows them."""
    structured = (call.result or {}).get("structured")
    return CallValues(
        arguments=mask_secrets_in_json(call.arguments),
        pieces=tuple(_describe_piece(each, structured) for each in results.build_call_pieces(call)),
        error=read_html(call_values.draw_problem(call)),
    )


def _describe_piece(piece: results.Piece, structured: Any) -> Piece:
    label = read_html(piece.label)
    if piece.kind == "table":
        # Only a structured value becomes a table.
        return Piece(kind="json", label=label, text=results.format_json_value(structured))
    if piece.kind == "text":
        text = read_html(piece.text)
        kind: Literal["json", "text"] = "json" if piece.is_code and _is_json(text) else "text"
        return Piece(kind=kind, label=label, text=text, left_out=piece.left_out)
    # The address of a link is a form, not a page.
    path = "" if piece.kind == "link" else piece.address
    return Piece(kind=piece.kind, label=label, about=read_html(piece.about), path=path)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def read_html(fragment: str) -> str:
    """Return the text of HTML in which all text was escaped."""
    return html.unescape(_TAG.sub("", fragment))
