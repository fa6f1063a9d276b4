"""The picker that adds resources, prompts and files to a message: its menu, and what its steps
share.

With htmx a step is a fragment above the message box; without JavaScript it is a page whose forms
carry the content of the message box, so that nothing typed is lost.
"""

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django_htmx.http import retarget

from chatapp.context import attachments as attaching
from chatapp.forms import IdsField
from chatapp.models import Attachment, Conversation
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.service_reads import run_operation
from mcpconfig.models import Service
from mcpconfig.operations.lazy import reading
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import make_storable

from .assistant_start import list_carried, read_start_view
from .conversations import Draft, build_sidebar_context, render_chat
from .project_start import read_project_start
from .uploads import keep_files

CARRIED = (
    *("chat", "client_id", "draft", "effort", "mode", "model", "project", "temporary", "text"),
    *("project_version", "tools"),
)
# A message that is only the beginning of the name of a prompt.
SLASH = re.compile(r"/([\w-]*)(?:(:)(\S*))?\s*")
VALUE_PREFIX = "value-"
VALUE_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value of a prompt or a template. `ref` is the prompt or the template."""

    ref: str
    name: str
    value: str
    title: str = ""
    description: str = ""
    is_required: bool = False

    @property
    def asked(self) -> str:
        """What a request for proposals sends beside the values of the form."""
        return json.dumps({"ref": self.ref, "argument": self.name})


@for_members("POST")
def services(request: MemberRequest) -> HttpResponse:
    """Show the first step: the services. Without htmx this leaves the page and uploads the files
    that were chosen there."""
    _, refused = ([], None) if request.htmx else keep_files(request)
    problem = build_problem(refused.sentence) if refused else None
    offered = Service.objects.for_member(request.user)
    return render_step(request, "services", {"services": offered}, problem)


@for_members("POST")
def files(request: MemberRequest) -> HttpResponse:
    """Attach the uploaded files to the message, and show why others were refused."""
    kept, refused = keep_files(request)
    sentence, status = (refused.sentence, refused.status) if refused else ("", 200)
    if not request.htmx:
        answer = render_chat(request, find_chat(request), read_draft(request, sentence), status)
    elif status == HTTPStatus.TOO_MANY_REQUESTS:
        # Nothing was looked at, and the files stay chosen.
        answer = render(request, "chat/_refusal.html", {"sentence": sentence}, status=status)
        retarget(answer, "#composer-notice")
    else:
        closes = bool(kept) and request.POST.get("closes") == "picker"
        context = {"attachments": kept, "sentence": sentence, "closes_picker": closes}
        answer = render(request, "chat/_files_added.html", context, status=status)
    return refused.set_retry(answer) if refused else answer


@for_members("POST")
def back(request: MemberRequest) -> HttpResponse:
    """Return to the unchanged message."""
    return (
        close_picker(request)
        if request.htmx
        else render_chat(request, find_chat(request), read_draft(request))
    )


@for_members("POST")
def add(request: MemberRequest) -> HttpResponse:
    """Attach what was read to the message."""
    return attach_files(request, find_drafts(request, request.POST.getlist("chosen")))


@for_members("POST")
def complete(request: MemberRequest) -> HttpResponse:
    """Return proposals for a value as options. Without any, the field stays plain."""
    argument = request.POST.get("argument", "")
    values = read_values(request)
    found = run_operation(
        reading.complete,
        find_service(request),
        request.POST.get("ref", ""),
        argument,
        values.pop(argument, ""),
        values,
        acting=get_acting(request),
    )
    proposals = () if isinstance(found, OperationError) else found.values
    return render(request, "chat/_picker_proposals.html", {"proposals": proposals})


def render_step(
    request: MemberRequest,
    name: str,
    context: dict[str, Any],
    problem: OperationError | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render one step as a fragment or as a page. `problem` says why the request failed. Status 422
    answers a message that was not sent; the suggestions for its text must not follow."""
    context = {
        "body": f"chat/_picker_{name}.html",
        "problem": problem,
        "is_typed": bool(request.POST.get("typed")),
        **context,
    }
    if request.htmx and status == 422:
        place = context | {"is_update": True}
        return render(request, "chat/_picker_place.html", place, status=status)
    if request.htmx:
        return render(request, "chat/_picker.html", context)
    context.setdefault("carried", list_carried_fields(request))
    context |= build_sidebar_context(request.user, "")
    return render(request, "chat/picker.html", context, status=422 if problem else 200)


def render_filled(
    request: MemberRequest, filled: str, context: dict[str, Any], written: str | None = None
) -> HttpResponse:
    """Show the text of a prompt after what the person has written, by default in the message box.
    If the prompt was chosen from what a message suggests that only names it, it replaces that."""
    written = request.POST.get("text", "") if written is None else written
    named = written if request.POST.get("typed") and SLASH.fullmatch(written) else ""
    text = append_text("" if named else written, filled)
    return render_step(
        request, "prompt_text", {"text": text, "filled": filled, "named": named, **context}
    )


def append_text(written: str, text: str) -> str:
    return "\n\n".join(filter(None, [written.strip(), text]))


def close_picker(request: MemberRequest) -> HttpResponse:
    """Close the picker: an empty response would leave the last step on the page."""
    return render(request, "chat/_picker_closed.html")


def attach_files(
    request: MemberRequest, files: list[Attachment], text: str | None = None
) -> HttpResponse:
    """Return the message box with these files attached, and with `text` if it is given."""
    if request.htmx:
        return render(request, "chat/_attachments_added.html", {"attachments": files})
    draft = read_draft(request, text=text)
    merged = {file.pk: file for file in (*draft.attachments, *files)}
    conversation = find_chat(request)
    return render_chat(request, conversation, replace(draft, attachments=tuple(merged.values())))


def read_draft(
    request: MemberRequest,
    refusal: str = "",
    text: str | None = None,
    missing: Sequence[str] = (),
) -> Draft:
    """Return the message in the request. `missing` are variables of its assistant to fill in."""
    return Draft(
        text=request.POST.get("text", "") if text is None else text,
        model=request.POST.get("model", ""),
        mode=request.POST.get("mode", ""),
        tools=request.POST.get("tools", ""),
        is_temporary=bool(request.POST.get("temporary")),
        effort=request.POST.get("effort", ""),
        refusal=refusal,
        draft_id=request.POST.get("draft", ""),
        attachments=tuple(find_drafts(request, request.POST.getlist("attachments"))),
        start=None if request.POST.get("chat") else read_start_view(request, request.user, missing),
        project=None if request.POST.get("chat") else read_project_start(request, request.user),
    )


def list_carried_fields(request: MemberRequest) -> list[tuple[str, str]]:
    """Return the fields of the message that the forms of a page carry."""
    single = [(name, request.POST[name]) for name in CARRIED if request.POST.get(name)]
    files = [("attachments", each) for each in request.POST.getlist("attachments")]
    return [*single, *list_carried(request), *files]


def find_drafts(request: MemberRequest, ids: list[str]) -> list[Attachment]:
    """Return the drafts of this person with these ids, without missing ones."""
    field = IdsField(required=False)
    known = field.to_python(ids) if all(map(_is_id, ids)) else []
    return attaching.find_drafts(request.user, known)


def find_service(request: MemberRequest) -> Service:
    """Return the service of the form if this person may use it. Raises Http404."""
    usable = Service.objects.for_member(request.user)
    return get_object_or_404(usable, name=make_storable(request.POST.get("service", "")))


def find_chat(request: MemberRequest) -> Conversation | None:
    """Return the conversation in which the picker was opened, or None in a new chat."""
    given = request.POST.get("chat", "")
    if not given:
        return None
    if not _is_id(given):
        raise Http404("No such conversation.")
    return Conversation.of(request.user, uuid.UUID(given))


def get_acting(request: MemberRequest) -> Acting:
    conversation = find_chat(request)
    return Acting.of(request.user, conversation.pk if conversation else "")


def read_values(request: HttpRequest, limit: int | None = VALUE_CHARACTERS) -> dict[str, str]:
    """Return the values for a prompt or a template, without empty ones, cut to `limit`."""
    return {
        name.removeprefix(VALUE_PREFIX): value.replace("\r\n", "\n")[:limit]
        for name, value in request.POST.items()
        if name.startswith(VALUE_PREFIX) and isinstance(value, str) and value
    }


def build_problem(sentence: str) -> OperationError:
    return OperationError(kind="configuration", message=sentence, was_sent=False, is_definite=True)


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
