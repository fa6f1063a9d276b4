"""What a shared link shows, as plain values. The page and the copy of a reader are made from them,
so neither has a value that the owner left out."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.utils.translation import gettext as _

from chatapp.models import Attachment, Part, ToolCall
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.rendering.call_values import describe_service, get_title
from chatapp.rendering.pages.fragments import OVER_WITHOUT_RUNNING
from chatapp.rendering.secret_mask import mask_secrets_in_json

from .values import (
    CallValues,
    Piece,
    SourcesPart,
    TextPart,
    ToolDetail,
    describe_copied_values,
    describe_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFile:
    """An attachment or a picture that a model made. `id` and `description` are set if the link
    includes files; without an id only the name is shown."""

    id: uuid.UUID | None
    name: str
    origin: str
    size: int
    is_picture: bool
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCall:
    """A tool call. `values` are set if the link includes arguments and results. Decisions and their
    reasons are left out: they may quote arguments. `result_of` is the id of the service whose
    result the chat has, also if the link leaves it out: answers may quote it."""

    call_id: str
    tool_id: str
    title: str
    service: str
    state: ToolCall.State
    values: CallValues | None
    result_of: int | None


SharedPart = TextPart | SourcesPart | SharedFile | SharedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMessage:
    """A message. `ending` says in a word that an answer was stopped or failed."""

    id: uuid.UUID
    role: Literal["user", "assistant"]
    created_at: datetime
    parts: tuple[SharedPart, ...]
    ending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inclusion:
    """What a link includes besides text. `until` is the time that it shows."""

    detail: ToolDetail
    has_files: bool
    until: datetime


def describe_shared_part(
    part: Part, included: Inclusion, *, is_withheld: bool
) -> SharedPart | None:
    """Return the part as the link shows it, or None if it does not. `is_withheld`: models may not
    read the result of this call, or of the call that it is a copy of. Reasoning and notices are
    left out: they may quote results, and a summary of the chat does."""
    match part.kind:
        case Part.Kind.TEXT if part.text:
            return TextPart(text=part.text)
        case Part.Kind.SOURCES:
            found = tuple((each["url"], each["title"]) for each in part.sources or ())
            return SourcesPart(sources=found)
        case Part.Kind.FILE:
            return _describe_file(part.attachment, part.text, has_files=included.has_files)
        case Part.Kind.TOOL_CALL if part.tool_call is not None:
            return _describe_call(part.tool_call, included, is_withheld=is_withheld)
        case Part.Kind.COPIED_CALL:
            copied = CopiedCall.read(part.copied_call)
            return _describe_copied_call(copied, included.detail, is_withheld=is_withheld)
        case _:
            return None


def _describe_file(kept: Attachment, description: str, *, has_files: bool) -> SharedFile:
    return SharedFile(
        id=kept.pk if has_files else None,
        # Without a name it would be the URI, which may have values of its own.
        name=str(kept) if has_files else kept.name or _("Resource"),
        origin=kept.origin,
        size=kept.size,
        is_picture=kept.is_picture,
        description=description if has_files else "",
    )


def _describe_call(call: ToolCall, included: Inclusion, *, is_withheld: bool) -> SharedCall | None:
    if included.detail == ToolDetail.NONE:
        return None
    is_later = _has_later_outcome(call, included.until)
    values = None
    if included.detail == ToolDetail.FULL:
        values = describe_values(call)
        if is_later:
            values = CallValues(arguments=values.arguments, pieces=(), error="")
        elif is_withheld:
            values = _leave_out_result(values.arguments)
    return SharedCall(
        call_id=call.provider_call_id,
        tool_id=call.tool_id,
        title=get_title(call),
        service=describe_service(call),
        state=ToolCall.State.UNKNOWN if is_later else ToolCall.State(call.state),
        values=values,
        result_of=call.service_id if call.result is not None and not is_later else None,
    )


def _has_later_outcome(call: ToolCall, until: datetime) -> bool:
    """Return whether the outcome of the call was unknown until then: it was sent again, its task
    ended, or a person said what it did, after that. Only calls with an unknown outcome have one
    later, as an answer that runs cannot be shared."""
    times = (call.sent_at, call.finished_at, call.resolved_at)
    return any(time is not None and time > until for time in times)


def _leave_out_result(arguments: str) -> CallValues:
    return CallValues(arguments=arguments, pieces=(), error=_("The result was withheld."))


def _describe_copied_call(
    copied: CopiedCall, detail: ToolDetail, *, is_withheld: bool
) -> SharedCall | None:
    """Return a call of the chat that the shared one was forked from."""
    if detail == ToolDetail.NONE:
        return None
    values = None
    if detail == ToolDetail.FULL:
        arguments = mask_secrets_in_json(copied.changed_arguments or copied.arguments)
        # The outcome of a call that did not run has the reason why.
        has_run = copied.state not in OVER_WITHOUT_RUNNING
        pieces = describe_copied_values(copied).pieces if has_run and not is_withheld else ()
        values = CallValues(arguments=arguments, pieces=pieces, error="")
        if is_withheld:
            values = _leave_out_result(arguments)
    return SharedCall(
        call_id=copied.call_id,
        tool_id=copied.tool_id,
        title=copied.title,
        service=copied.service,
        state=ToolCall.State(copied.state),
        values=values,
        result_of=copied.result_of,
    )


def write_outcome(call: SharedCall) -> str:
    """Return the outcome of a call as plain text, for models that read a copy of the chat. It has
    what the page of the link shows, and not more."""
    state = call.state.label
    if call.values is None:
        return f"[The call ended as: {state}. Its arguments and its result were not shared.]"
    said = [_write_piece(piece) for piece in call.values.pieces]
    text = "\n\n".join(filter(None, [*said, call.values.error]))
    return text or f"[The call ended as: {state}.]"


def _write_piece(piece: Piece) -> str:
    if piece.kind not in ("text", "json"):
        return f"[{piece.label}: {piece.about}]"
    if not piece.left_out:
        return piece.text
    return f"{piece.text}\n[{piece.left_out} more characters were not shared.]"
