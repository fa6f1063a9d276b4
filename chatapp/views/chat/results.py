"""What services answered, for the person it was answered to: bytes, opened links, attachments."""

import uuid
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import content_disposition_header

from chatapp.models import Attachment, File, ToolCall
from chatapp.rendering.media import decoded, media_type_of
from chatapp.rendering.results import pieces_of_attachment
from chatapp.turns import attachments
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import reading

from .access import MemberRequest, for_members
from .asking import answer_of
from .conversations import sidebar_context

# Nobody may be led to open these bytes as a page of ours: no script, no origin, no guessing.
BYTES_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
GONE = OperationError(
    kind="configuration",
    message="The service of this link was changed or removed, or is not yours to use.",
    hint="Ask an admin.",
)


@for_members("GET", "HEAD")
def call_content(request: MemberRequest, call_id: uuid.UUID, index: int) -> HttpResponse:
    """The bytes of one block of a tool's result."""
    block = piece_at(ToolCall.of(request.user, call_id).content, index)
    data = block.get("data") or (block.get("resource") or {}).get("blob")
    return bytes_of(data, save="save" in request.GET)


@for_members("GET", "HEAD")
def attachment_content(
    request: MemberRequest, attachment_id: uuid.UUID, index: int
) -> HttpResponse:
    """The bytes of one part of an attachment."""
    found = Attachment.of(request.user, attachment_id)
    if found.is_own_file and index == 0:
        return _file(found, save="save" in request.GET)
    part = piece_at(found.contents, index)
    return bytes_of(part.get("blob"), save="save" in request.GET)


def _file(found: Attachment, *, save: bool) -> HttpResponse:
    """A person's own file: a picture to show, and all else to save under its own name."""
    file = get_object_or_404(File, pk=found.pk)
    headers = dict(BYTES_HEADERS)
    if save or not found.is_picture:
        saved_as = content_disposition_header(as_attachment=True, filename=found.name)
        headers["Content-Disposition"] = saved_as or "attachment"
    kind = found.mime_type if found.is_picture else "application/octet-stream"
    return HttpResponse(bytes(file.data), content_type=kind, headers=headers)


@for_members("GET", "HEAD")
def attachment(request: MemberRequest, attachment_id: uuid.UUID) -> HttpResponse:
    """A page with what was attached, as it was when it was read."""
    found = Attachment.of(request.user, attachment_id)
    context = {
        "attachment": found,
        "results": pieces_of_attachment(found),
        "rest": "are in the file" if found.is_own_file else "",
        **sidebar_context(request.user, ""),
    }
    return render(request, "chat/attachment.html", context)


@for_members("POST")
def open_link(request: MemberRequest, call_id: uuid.UUID, index: int) -> HttpResponse:
    """Read a resource that a tool's result names, from the service that named it."""
    call = ToolCall.of(request.user, call_id)
    block = piece_at(call.content, index)
    if block.get("type") != "resource_link":
        raise Http404("No such link.")
    uri = str(block.get("uri") or "")
    service = _same_service(request, call)
    if service is None:
        return _not_opened(request, GONE)
    acting = Acting.of(request.user, call.turn.conversation_id)
    found = answer_of(reading.read_resource, service, uri, acting=acting)
    if isinstance(found, OperationError):
        return _not_opened(request, found)
    name = str(block.get("title") or block.get("name") or uri)
    kept = attachments.keep(request.user, service, uri, name, found)
    if not request.htmx:
        return redirect("attachment", kept.pk)
    context = {"attachment": kept, "results": pieces_of_attachment(kept)}
    return render(request, "chat/_result_opened.html", context)


def _same_service(request: MemberRequest, call: ToolCall) -> Service | None:
    """The call's service, while this person may use it and it is the server that answered: a new
    URL makes all definitions of the old one old."""
    if call.definition is None or not call.definition.is_current:
        return None
    return Service.objects.for_member(request.user).filter(pk=call.definition.service_id).first()


def _not_opened(request: MemberRequest, error: OperationError) -> HttpResponse:
    if request.htmx:
        return render(request, "chat/_problem.html", {"problem": error})
    context = {"problem": error, **sidebar_context(request.user, "")}
    return render(request, "chat/not_opened.html", context, status=409)


def piece_at(pieces: list[dict[str, Any]], index: int) -> dict[str, Any]:
    if index >= len(pieces):
        raise Http404("There is no such piece.")
    return pieces[index]


def bytes_of(base64_text: object, *, save: bool) -> HttpResponse:
    """The bytes, as what they are; what is no picture and no sound can only be saved."""
    data = decoded(base64_text)
    if data is None:
        raise Http404("There are no bytes to show.")
    found = media_type_of(data)
    headers = dict(BYTES_HEADERS)
    if save or not found:
        suffix = found.partition("/")[2] or "bin"
        headers["Content-Disposition"] = f'attachment; filename="resource.{suffix}"'
    return HttpResponse(data, content_type=found or "application/octet-stream", headers=headers)
