"""Results of services for the person they belong to: bytes, opened links, attachments."""

import re
import uuid
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _

from chatapp.context import attachments
from chatapp.context.file_storage import (
    UNAVAILABLE,
    FileMissing,
    Holder,
    StorageUnavailable,
    read_bytes,
)
from chatapp.models import Attachment, File, ToolCall
from chatapp.rendering.results import (
    build_attachment_pieces,
    decode_base64,
    detect_media_type,
    list_file_facts,
)
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.service_reads import run_operation
from mcpconfig.models import Service
from mcpconfig.operations.lazy import reading
from mcpconfig.trace import recording
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

from .conversations import build_sidebar_context

# A browser must not treat these bytes as one of our pages: no script, no origin, no sniffing.
BYTES_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
# One range, from a byte on, to a byte, or of the last bytes.
ONE_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


@for_members("GET", "HEAD")
def call_content(request: MemberRequest, call_id: uuid.UUID, index: int) -> HttpResponse:
    """Return the bytes of one block of a tool result."""
    block = get_piece(ToolCall.of(request.user, call_id).content, index)
    data = block.get("data") or (block.get("resource") or {}).get("blob")
    return build_bytes_response(request, data, save="save" in request.GET)


@for_members("GET", "HEAD")
def attachment_content(
    request: MemberRequest, attachment_id: uuid.UUID, index: int
) -> HttpResponse:
    """Return the bytes of one part of an attachment."""
    found = Attachment.of(request.user, attachment_id)
    if found.is_own_file and index == 0:
        return build_file_response(request, found, save="save" in request.GET)
    part = get_piece(found.contents, index)
    return build_bytes_response(request, part.get("blob"), save="save" in request.GET)


def build_file_response(request: HttpRequest, found: Attachment, *, save: bool) -> HttpResponse:
    """Return a person's own file: a picture is shown, any other file is saved under its name."""
    file = get_object_or_404(File.objects.select_related("stored"), pk=found.pk)
    data = read_stored(request, file)
    if isinstance(data, HttpResponse):
        return data
    headers = dict(BYTES_HEADERS)
    if save or not found.is_picture:
        saved_as = content_disposition_header(as_attachment=True, filename=found.name)
        headers["Content-Disposition"] = saved_as or "attachment"
    kind = found.mime_type if found.is_picture else "application/octet-stream"
    return HttpResponse(data, content_type=kind, headers=headers)


def read_stored(request: HttpRequest, file: Holder) -> bytes | HttpResponse:
    """Return the bytes of a file, or the page that says why there are none."""
    try:
        return read_bytes(file)
    except FileMissing:
        problem = _("This file is missing from the file storage. Ask an admin to restore it.")
        return render(request, "shared/file_problem.html", {"problem": problem}, status=404)
    except StorageUnavailable:
        problem = str(UNAVAILABLE)
        return render(request, "shared/file_problem.html", {"problem": problem}, status=503)


@for_members("GET", "HEAD")
def attachment(request: MemberRequest, attachment_id: uuid.UUID) -> HttpResponse:
    """Show an attachment as it was when it was read."""
    found = Attachment.of(request.user, attachment_id)
    context = {
        "attachment": found,
        "facts": list_file_facts(found),
        "results": build_attachment_pieces(found),
        "rest": "in-file" if found.is_own_file else "",
    }
    if request.htmx:
        context["body"] = "chat/_picker_own_file.html"
        return render(request, "chat/_picker.html", context)
    context |= build_sidebar_context(request.user, "")
    return render(request, "chat/attachment.html", context)


@for_members("POST")
def open_link(request: MemberRequest, call_id: uuid.UUID, index: int) -> HttpResponse:
    """Read a resource that a tool result names, from the service of the tool."""
    call = ToolCall.of(request.user, call_id)
    block = get_piece(call.content, index)
    if block.get("type") != "resource_link":
        raise Http404("No such link.")
    uri = str(block.get("uri") or "")
    service = _find_same_service(request, call)
    if service is None:
        return _render_not_opened(request, _build_gone())
    acting = Acting.of(request.user, call.turn.conversation_id)
    with recording.use_round(str(call.pk)):
        found = run_operation(reading.read_resource, service, uri, acting=acting)
    if isinstance(found, OperationError):
        return _render_not_opened(request, found)
    name = str(block.get("title") or block.get("name") or uri)
    kept = attachments.store_draft(request.user, service, uri, name, found)
    if not request.htmx:
        return redirect("attachment", kept.pk)
    context = {"attachment": kept, "results": build_attachment_pieces(kept)}
    return render(request, "chat/_result_opened.html", context)


def _find_same_service(request: MemberRequest, call: ToolCall) -> Service | None:
    """Return the service of the call if this person may use it and its URL is unchanged: a new URL
    makes all definitions of the old one obsolete."""
    if call.definition is None or not call.definition.is_current:
        return None
    return Service.objects.for_member(request.user).filter(pk=call.definition.service_id).first()


def _build_gone() -> OperationError:
    return OperationError(
        kind="configuration",
        message=_("The service of this link was changed or removed, or you cannot use it."),
        hint=_("Ask an admin."),
    )


def _render_not_opened(request: MemberRequest, error: OperationError) -> HttpResponse:
    if request.htmx:
        return render(request, "chat/_problem.html", {"problem": error})
    context = {"problem": error, **build_sidebar_context(request.user, "")}
    return render(request, "chat/not_opened.html", context, status=409)


def get_piece(pieces: list[dict[str, Any]], index: int) -> dict[str, Any]:
    if index >= len(pieces):
        raise Http404("There is no such piece.")
    return pieces[index]


def build_bytes_response(request: HttpRequest, base64_text: object, *, save: bool) -> HttpResponse:
    """Return the bytes with their detected type. Only pictures and sounds are shown, the rest is
    saved."""
    data = decode_base64(base64_text)
    if data is None:
        raise Http404("There are no bytes to show.")
    found = detect_media_type(data)
    headers = dict(BYTES_HEADERS)
    if save or not found:
        suffix = found.partition("/")[2] or "bin"
        headers["Content-Disposition"] = f'attachment; filename="resource.{suffix}"'
    response = HttpResponse(data, content_type=found or "application/octet-stream", headers=headers)
    if found.startswith("audio/"):
        # Only GET has ranges, and nothing says whether the file is the one that `If-Range` names.
        has_range = request.method == "GET" and "If-Range" not in request.headers
        cut_range(response, request.headers.get("Range", "") if has_range else "")
    return response


def cut_range(response: HttpResponse, wanted: str) -> None:
    """Cut the body to the bytes of a `Range` header (RFC 9110 section 14.2). Safari plays no sound
    without ranges. A range behind the end gets 416 and the size. The body stays whole for no range,
    for several, and for one that cannot be read."""
    # Ranges count the bytes that are sent, so these may not be compressed.
    response["Content-Encoding"], response["Accept-Ranges"] = "identity", "bytes"
    match = ONE_RANGE.fullmatch(wanted)
    if match is None or not any(match.groups()):
        return
    size = len(response.content)
    first, last = (int(number) if number else None for number in match.groups())
    if first is None:
        first, last = max(0, size - (last or 0)), size - 1
    last = size - 1 if last is None else last
    if last < first < size:
        return
    if first >= size:
        response.status_code, response.content = 416, b""
        response["Content-Range"] = f"bytes */{size}"
        return
    last = min(last, size - 1)
    response.status_code, response.content = 206, response.content[first : last + 1]
    response["Content-Range"] = f"bytes {first}-{last}/{size}"
