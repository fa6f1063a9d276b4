"""The admin page *Add a service*: it checks an address step by step before anything is saved, and
saves the service with its people and its confirmed tools in one go."""

import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import cast

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.admin.adding import describe_blocking, list_groups
from chatapp.admin.badges import render_badge
from chatapp.audit.admin_entries import log_service_act, name_host
from chatapp.models import Member
from chatapp.permissions.reasons import translate_reason
from chatapp.providers.access.model_choice import list_offered_models
from chatapp.rendering.definition_changes import Part, list_parts
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.tools.catalogue import assess_risk
from mcpconfig.admin.service_pages import ServicePages, may_change_credentials
from mcpconfig.models import Service, ServiceDraft
from mcpconfig.operations.lazy import service_adding, service_probe
from mcpconfig.services import service_drafts
from mcpconfig.services.own_services import TOO_OFTEN, claim_look
from mcpconfig.services.service_drafts import AddServiceForm
from mcpconfig.services.service_form import SECRETS
from mcpconfig.services.service_templates import TEMPLATES, get_template
from mcpconfig.services.tool_definitions import (
    build_definition,
    hash_definition,
    is_ticked_at_first,
)
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.probe import ProbeReport
from mcpconfig.values.results import Listing, Tool
from mcpconfig.values.tool_tokens import estimate_tool_tokens

from .opinions import judges_each_new

MAX_DESCRIPTION = 200
NO_SECRETS = _lazy(
    "You need the right to change credentials to enter a token, headers or a secret."
)
LEVELS = ("low", "medium", "high")
STEP_NAMES = {
    "address": _lazy("Address"),
    "transport": _lazy("Transport"),
    "era": _lazy("Protocol"),
    "challenge": _lazy("Sign-in"),
    "registration": _lazy("Registration"),
    "name": _lazy("Name"),
    "tools": _lazy("Tools"),
    "tokens": _lazy("Tokens"),
}
WAYS = {
    "oauth_user": (
        _lazy("Each member signs in"),
        _lazy("Calls run with the member’s own rights (OAuth)."),
    ),
    "oauth_shared": (
        _lazy("One sign-in for all"),
        _lazy("An admin signs in once. Everyone acts as that account (OAuth)."),
    ),
    "company": (
        _lazy("Company sign-in"),
        _lazy("One sign-in at your identity provider covers every service."),
    ),
    "client_credentials": (
        _lazy("Client credentials"),
        _lazy("Countersign signs in as an application (OAuth)."),
    ),
    "bearer": (_lazy("Bearer token"), _lazy("Everyone acts as the owner of the token.")),
    "headers": (
        _lazy("HTTP headers"),
        _lazy("Headers with a key, or with values for each member."),
    ),
    "none": (_lazy("No sign-in"), _lazy("For services that are open to your network.")),
}
ACCESS_HELP = {
    "admins": _lazy("Nobody else can use it until you choose."),
    "groups": _lazy("Members of the groups you choose, also those who join later."),
    "person": _lazy("It belongs to this member."),
    "everyone": _lazy("Every member, also those who join later."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One tool of the last check, as it would be confirmed."""

    name: str
    drawn_name: SafeString
    description: SafeString
    hash: str
    level: str
    badge: SafeString | str
    reasons: list[str]
    tokens: int
    parts: list[Part]
    is_ticked: bool


def add_service(
    pages: ServicePages, request: HttpRequest, draft_id: uuid.UUID | None = None
) -> HttpResponse:
    """Show the page. A POST checks the address, adds the service, or discards the draft."""
    if not (pages.has_add_permission(request) and pages.has_change_permission(request)):
        raise PermissionDenied
    draft = _find_draft(request, draft_id)
    if request.method != "POST":
        return _render(pages, request, draft, AddServiceForm(draft=draft))
    try:
        return _act(pages, request, draft)
    except ServiceDraft.DoesNotExist:
        messages.warning(request, _("This page was saved or discarded in another window."))
        return redirect("admin:mcpconfig_service_changelist")


def _act(pages: ServicePages, request: HttpRequest, draft: ServiceDraft) -> HttpResponse:
    act = request.POST.get("act", "check")
    if act == "discard":
        if ServiceDraft.objects.filter(pk=draft.pk).delete()[0]:
            _log(draft, "draft discarded")
        return redirect("admin:mcpconfig_service_changelist")
    posted, has_secrets = _leave_secrets_out(request)
    service_drafts.keep_typed(draft, posted)
    if not may_change_credentials(request):
        service_drafts.forget_typed_secrets(draft)
    draft.store()
    form = AddServiceForm(_read_form(draft, posted), draft=draft)
    if has_secrets:
        return _render(pages, request, draft, form, problem=str(NO_SECRETS), status=422)
    if act == "save" or act == "save_off":
        return _save(pages, request, draft, form, is_enabled=act == "save")
    return _check(pages, request, draft, form)


def _find_draft(request: HttpRequest, draft_id: uuid.UUID | None) -> ServiceDraft:
    person = cast(Member, request.user)
    if draft_id is None:
        key = request.GET.get("template", "") or request.POST.get("template", "")
        return service_drafts.start_draft(person, get_template(key))
    draft = ServiceDraft.find(person.pk, draft_id)
    if draft is None:
        raise Http404("No such draft.")
    return draft


def _leave_secrets_out(request: HttpRequest) -> tuple[QueryDict, bool]:
    """Return what was posted, and whether it has secrets that this admin may not enter. Those are
    left out."""
    posted = request.POST.copy()
    if may_change_credentials(request):
        return posted, False
    given = [name for name in SECRETS if posted.pop(name, [""])[-1]]
    return posted, bool(given)


def _read_form(draft: ServiceDraft, posted: QueryDict) -> QueryDict:
    """Return what was posted, with the typed values of fields that the first page has not."""
    for name, value in draft.typed.items():
        if name not in posted and isinstance(value, str) and value:
            posted[name] = value
    posted.setlist("groups", draft.typed["groups"])  # without numbers that no database knows
    return posted


# --- check ---------------------------------------------------------------------------------------
def _check(
    pages: ServicePages, request: HttpRequest, draft: ServiceDraft, form: AddServiceForm
) -> HttpResponse:
    person = cast(Member, request.user)
    # A wrong name cannot be a part of the redirect URL. An empty one is proposed by the check.
    is_wrong = draft.typed["name"] and "name" in form.errors
    if is_wrong or not draft.typed["url"]:
        return _render(pages, request, draft, form, status=422)
    acting = Acting.of(person)
    try:
        _require_sound_secrets(form)
        credentials = service_drafts.build_credentials(draft, acting)
    except OperationError as error:
        return _render(pages, request, draft, form, problem=error.message, status=422)
    if not claim_look(person):
        return _render(pages, request, draft, form, problem=str(TOO_OFTEN), status=429)
    _log(draft, "address checked")
    taken = frozenset(Service.objects.values_list("name", flat=True))
    probe = async_to_sync(service_probe.probe_service)(
        service_drafts.build_service(draft),
        credentials,
        base_url=settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/"),
        taken_names=taken,
        known=service_drafts.read_registration(draft),
    )
    registration = asdict(probe.registration) if probe.registration else None
    service_drafts.keep_report(draft, probe.report, registration)
    draft.store()
    return redirect("admin:mcpconfig_service_connect_draft", draft.pk)


def _log(draft: ServiceDraft, act: str) -> None:
    """Record an act on the draft, with the host of its address. The rest may hold a secret."""
    log_service_act(f"at {name_host(draft.typed.get('url') or '')}", act)


def _require_sound_secrets(form: AddServiceForm) -> None:
    """Refuse a token or headers that no request can carry, before they are sent."""
    for name in ("bearer", "headers"):
        if name in form.errors and name in form.kept:
            said = " ".join(map(str, form.errors[name]))
            raise OperationError(kind="configuration", message=said)


# --- save ----------------------------------------------------------------------------------------
def _save(
    pages: ServicePages,
    request: HttpRequest,
    draft: ServiceDraft,
    form: AddServiceForm,
    *,
    is_enabled: bool,
) -> HttpResponse:
    refuse = partial(_render, pages, request, draft, form, status=422)
    report = service_drafts.read_report(draft)
    if report is None:
        return refuse(problem=_("Check this URL before you add the service."))
    if is_enabled and report.blocking is not None:
        return refuse(problem=describe_blocking(report.blocking.detail))
    if not form.is_valid():
        return refuse(problem=_("Nothing was saved. Correct the marked fields."))
    ticked = set(draft.typed["ticked"] or ())
    listing: Listing | None = None
    if ticked and report.tools:
        person = cast(Member, request.user)
        if not claim_look(person):
            return _render(pages, request, draft, form, problem=str(TOO_OFTEN), status=429)
        _log(draft, "tools read again")
        service = service_drafts.build_service(draft)
        try:
            credentials = service_drafts.build_credentials(draft, Acting.of(person))
            listing = async_to_sync(service_probe.list_tools_of_draft)(service, credentials)
        except OperationError as error:
            return refuse(
                problem=_(
                    "Nothing was saved: the tools could not be read again. %(reason)s To save "
                    "without confirming tools, clear their ticks."
                )
                % {"reason": error.message}
            )
        if changed := service_adding.find_changed(service, report.tools, listing, ticked):
            return _show_changes(pages, request, draft, form, listing, changed)
    return _store(pages, request, draft, form, listing, ticked, is_enabled=is_enabled)


def _show_changes(
    pages: ServicePages,
    request: HttpRequest,
    draft: ServiceDraft,
    form: AddServiceForm,
    listing: Listing,
    changed: Collection[str],
) -> HttpResponse:
    """Show the tools as they are now. Those that changed are not ticked, because nobody has read
    their new definitions."""
    report = (draft.report or {}) | {
        "tools": [asdict(tool) for tool in listing.tools],
        "left_out": [asdict(tool) for tool in listing.left_out],
    }
    draft.report = report
    draft.store()
    problem = ngettext(
        "Nothing was saved. This tool changed since the check: %(names)s. Read it again below.",
        "Nothing was saved. These tools changed since the check: %(names)s. Read them again below.",
        len(changed),
    ) % {"names": ", ".join(changed)}
    return _render(pages, request, draft, form, problem=problem, status=409)


def _store(
    pages: ServicePages,
    request: HttpRequest,
    draft: ServiceDraft,
    form: AddServiceForm,
    listing: Listing | None,
    ticked: Collection[str],
    *,
    is_enabled: bool,
) -> HttpResponse:
    refuse = partial(_render, pages, request, draft, form, status=422)
    try:
        with transaction.atomic():
            service, confirmed = service_adding.add_service(
                form, listing, ticked, is_enabled=is_enabled
            )
            pages.log_addition(request, service, _("Added after a check of its address."))
    except IntegrityError:
        form.add_error("name", _("This name is taken. Choose another one."))
        return refuse(problem=_("Nothing was saved. Correct the marked fields."))
    text = ngettext(
        "%(service)s is added, with %(count)s confirmed tool.",
        "%(service)s is added, with %(count)s confirmed tools.",
        confirmed,
    )
    messages.success(request, text % {"service": service, "count": confirmed})
    return redirect("admin:mcpconfig_service_status", service.pk)


# --- page ----------------------------------------------------------------------------------------
def _render(
    pages: ServicePages,
    request: HttpRequest,
    draft: ServiceDraft,
    form: AddServiceForm,
    *,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    report = service_drafts.read_report(draft)
    waits_for_opinions = judges_each_new()
    tools = _build_rows(draft, report, ticks_low=not waits_for_opinions)
    template = get_template(draft.template)
    typed = draft.typed
    context = {
        "title": _("Add a service"),
        "templates": TEMPLATES,
        "template": template,
        "draft": draft if draft.report is not None else None,
        "start": reverse("admin:mcpconfig_service_connect"),
        "by_hand": reverse("admin:mcpconfig_service_add"),
        "address": _get_address(draft),
        "form": form,
        "problem": problem,
        "report": report,
        "steps": [(STEP_NAMES[step.name], step) for step in report.steps] if report else [],
        "seconds": round(report.milliseconds / 1000, 1) if report else 0,
        "blocking": describe_blocking(report.blocking.detail) if report and report.blocking else "",
        "suggested": WAYS[report.authentication][0] if report and report.authentication else "",
        "may_enter_secrets": may_change_credentials(request),
        "asked_scopes": report.scopes if report else "",
        "ways": [
            (value, *text, value == typed.get("authentication")) for value, text in WAYS.items()
        ],
        "access": [
            (value, text, ACCESS_HELP[value], value == (typed.get("access") or "admins"))
            for value, text in service_drafts.ACCESS_CHOICES
        ],
        "groups": list_groups(typed.get("groups") or ()),
        "tools": tools,
        "waits_for_opinions": waits_for_opinions,
        "ticked": sum(row.is_ticked for row in tools),
        "share": _describe_share(sum(row.tokens for row in tools)),
    }
    return pages.render_page(request, "add", context, status)


def _get_address(draft: ServiceDraft) -> str:
    """Return where the form is sent: a stored draft keeps what is typed from then on."""
    if draft._state.adding:
        return reverse("admin:mcpconfig_service_connect")
    return reverse("admin:mcpconfig_service_connect_draft", args=[draft.pk])


def _build_rows(
    draft: ServiceDraft, report: ProbeReport | None, *, ticks_low: bool
) -> list[ToolRow]:
    """Return the tools of the report, the lowest risk first. `ticks_low`: those with a low risk are
    ticked before the admin chooses."""
    if report is None or report.tools is None:
        return []
    service, chosen = service_drafts.build_service(draft), draft.typed.get("ticked")
    if chosen is None and not ticks_low:
        chosen = ()
    rows = [_build_row(service, tool, chosen) for tool in report.tools]
    return sorted(rows, key=lambda row: (LEVELS.index(row.level), row.name))


def _build_row(service: Service, tool: Tool, chosen: Collection[str] | None) -> ToolRow:
    hash_ = hash_definition(service, tool)
    definition = build_definition(service, hash_, tool)
    risk = assess_risk(service, definition, None)
    description = " ".join((tool.description or tool.title).split())
    short = description[: MAX_DESCRIPTION - 1] + "…"
    return ToolRow(
        name=tool.name,
        drawn_name=draw_hidden(tool.name),
        description=draw_hidden(short if len(description) > MAX_DESCRIPTION else description),
        hash=hash_,
        level=risk.level,
        badge=render_badge(risk.level),
        reasons=[translate_reason(reason) for reason in risk.reasons],
        tokens=estimate_tool_tokens([tool]),
        parts=list_parts(definition),
        is_ticked=is_ticked_at_first("new", risk.level) if chosen is None else hash_ in chosen,
    )


def _describe_share(tokens: int) -> str:
    """Return the share of the default model's context, if that is known."""
    model = next(iter(list_offered_models(None)), None)
    if not tokens or model is None or not model.context_tokens:
        return ""
    percent = 100 * tokens / model.context_tokens
    shown = f"{percent:.0f}" if percent >= 1 else f"{percent:.1f}"
    return _("%(percent)s %% of the context of %(model)s") % {
        "percent": shown,
        "model": model.label,
    }
