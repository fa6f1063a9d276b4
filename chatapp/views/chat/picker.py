"""What can be added to a message: the menu of services, and what every step of it shares.

With htmx a step is a fragment above the message box; without JavaScript it is a page whose forms
carry along what was written, so that nothing typed is lost on the way.
"""

import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from chatapp.forms import IdsField
from chatapp.models import Attachment, Conversation
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import reading
from mcpconfig.results import storable

from .access import MemberRequest, for_members
from .asking import answer_of
from .conversations import Draft, show, sidebar_context
from .uploads import take_files

CARRIED = ("chat", "client_id", "mode", "model", "text", "tools")
VALUE_PREFIX = "value-"
VALUE_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value that a prompt or a template takes. `ref` is whose value it is."""

    ref: str
    name: str
    value: str
    title: str = ""
    description: str = ""
    is_required: bool = False

    @property
    def asked(self) -> str:
        """What proposals are asked for with, beside the values of the form."""
        return json.dumps({"ref": self.ref, "argument": self.name})


@for_members("POST")
def services(request: MemberRequest) -> HttpResponse:
    """The first step: which service, and what of it. Without htmx this leaves the page, and takes
    along the files that were chosen there."""
    _, sentence = ([], "") if request.htmx else take_files(request)
    problem = _refused(sentence) if sentence else None
    offered = Service.objects.for_member(request.user)
    return step(request, "services", {"services": offered}, problem)


@for_members("POST")
def files(request: MemberRequest) -> HttpResponse:
    """Put files of the person's own beside the message, and say why others are not there."""
    kept, sentence = take_files(request)
    status = 422 if sentence else 200
    if not request.htmx:
        return show(request, chat_of(request), draft_of(request, sentence), status)
    context = {"attachments": kept, "sentence": sentence}
    return render(request, "chat/_files_added.html", context, status=status)


@for_members("POST")
def back(request: MemberRequest) -> HttpResponse:
    """Back to the message, as it was."""
    return closed(request) if request.htmx else show(request, chat_of(request), draft_of(request))


@for_members("POST")
def add(request: MemberRequest) -> HttpResponse:
    """Put what was read beside the message."""
    return added(request, drafts_of(request, request.POST.getlist("chosen")))


@for_members("POST")
def complete(request: MemberRequest) -> HttpResponse:
    """Proposals for a value, as options. Where the service has none, the field stays plain."""
    argument = request.POST.get("argument", "")
    values = given_values(request)
    found = answer_of(
        reading.complete,
        service_of(request),
        request.POST.get("ref", ""),
        argument,
        values.pop(argument, ""),
        values,
        acting=acting_in(request),
    )
    proposals = () if isinstance(found, OperationError) else found.values
    return render(request, "chat/_picker_proposals.html", {"proposals": proposals})


def step(
    request: MemberRequest,
    name: str,
    context: dict[str, Any],
    problem: OperationError | None = None,
    status: int = 200,
) -> HttpResponse:
    """One step, as a fragment or as a page. `problem` says why it could not be what was asked;
    422 that it answers a message that was not sent, and what typing it asks for must not follow."""
    context = {"body": f"chat/_picker_{name}.html", "problem": problem, **context}
    if request.htmx and status == 422:
        place = context | {"is_update": True}
        return render(request, "chat/_picker_place.html", place, status=status)
    if request.htmx:
        return render(request, "chat/_picker.html", context)
    context |= {"carried": carried(request), **sidebar_context(request.user, "")}
    return render(request, "chat/picker.html", context, status=422 if problem else 200)


def closed(request: MemberRequest) -> HttpResponse:
    """No step: an answer without anything would leave the last one where it is."""
    return render(request, "chat/_picker_closed.html")


def added(request: MemberRequest, files: list[Attachment], text: str | None = None) -> HttpResponse:
    """The message box with these files beside it, and with `text` in it where that is given."""
    if request.htmx:
        return render(request, "chat/_attachments_added.html", {"attachments": files})
    draft = draft_of(request, text=text)
    merged = {file.pk: file for file in (*draft.attachments, *files)}
    conversation = chat_of(request)
    return show(request, conversation, replace(draft, attachments=tuple(merged.values())))


def draft_of(request: MemberRequest, refusal: str = "", text: str | None = None) -> Draft:
    """The message as the request has it."""
    return Draft(
        text=request.POST.get("text", "") if text is None else text,
        model=request.POST.get("model", ""),
        mode=request.POST.get("mode", ""),
        tools=request.POST.get("tools", ""),
        refusal=refusal,
        attachments=tuple(drafts_of(request, request.POST.getlist("attachments"))),
    )


def carried(request: MemberRequest) -> list[tuple[str, str]]:
    """The fields of the message, for the forms of a page to hand on."""
    single = [(name, request.POST[name]) for name in CARRIED if request.POST.get(name)]
    return [*single, *(("attachments", each) for each in request.POST.getlist("attachments"))]


def drafts_of(request: MemberRequest, ids: list[str]) -> list[Attachment]:
    """This person's drafts of these ids; what is not there (any more) is left out."""
    field = IdsField(required=False)
    known = field.to_python(ids) if all(map(_is_id, ids)) else []
    drafts = Attachment.objects.filter(owner=request.user, part=None, pk__in=known)
    return list(drafts.defer("contents"))


def service_of(request: MemberRequest) -> Service:
    """The service of the form, if this person may use it, or 404."""
    usable = Service.objects.for_member(request.user)
    return get_object_or_404(usable, name=storable(request.POST.get("service", "")))


def chat_of(request: MemberRequest) -> Conversation | None:
    """The conversation in which this began; None in a new one."""
    given = request.POST.get("chat", "")
    if not given:
        return None
    if not _is_id(given):
        raise Http404("No such conversation.")
    return Conversation.of(request.user, uuid.UUID(given))


def acting_in(request: MemberRequest) -> Acting:
    conversation = chat_of(request)
    return Acting.of(request.user, conversation.pk if conversation else "")


def given_values(request: HttpRequest) -> dict[str, str]:
    """The values that were filled in for a prompt or a template, without the empty ones."""
    return {
        name.removeprefix(VALUE_PREFIX): value[:VALUE_CHARACTERS]
        for name, value in request.POST.items()
        if name.startswith(VALUE_PREFIX) and isinstance(value, str) and value
    }


def _refused(sentence: str) -> OperationError:
    return OperationError(kind="configuration", message=sentence, was_sent=False, is_definite=True)


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
