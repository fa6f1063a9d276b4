"""Admin pages for running a tool by hand: the form, the confirmation and the result."""

import json
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from django.core.signing import BadSignature, Signer
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import Member, Trial
from chatapp.people.refused import Refused, refuse_haste
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering import call_values
from chatapp.rendering.cards.schema_form import (
    Field,
    UnreadableValues,
    build_fields,
    fields_to_json,
    json_to_fields,
)
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.results import build_trial_pieces, format_json_value
from chatapp.simulation import manual_runs
from chatapp.simulation.manual_runs import Judgement, NotTyped, Proposal, judge
from chatapp.views.access import MemberRequest
from chatapp.views.chat.results import build_bytes_response, get_piece
from mcpconfig.admin.service_pages import ServicePages
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.secrets.credentials import has_personal_headers
from mcpconfig.services.sharing import explain_refusal

from .copied_values import CopiedValues, copy_values

_CONFIRMATION_SIGNER = Signer(salt="chatapp.trial.confirmed")
NOT_SHOWN = _lazy("This form could not be read. Review the request again.")
MAX_RECENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedValues:
    """The entered arguments: the values of the form fields, or exact JSON."""

    fields: list[Field]
    typed: Mapping[str, str] = field(default_factory=dict)
    exact: str = ""
    is_exact: bool = False

    @classmethod
    def from_request(cls, request: MemberRequest, definition: ToolDefinition) -> "TypedValues":
        fields = build_fields(definition.input_schema)
        return cls(
            fields=fields,
            typed=cast("Mapping[str, str]", request.POST),
            exact=request.POST.get("exact", ""),
            is_exact=not fields or "exact" in request.POST,
        )

    @classmethod
    def from_arguments(cls, definition: ToolDefinition, arguments: str) -> "TypedValues":
        """Return stored arguments as field values, or as JSON if the fields cannot hold them."""
        fields = build_fields(definition.input_schema)
        try:
            return cls(fields=fields, typed=json_to_fields(fields, arguments), is_exact=not fields)
        except UnreadableValues:
            return cls(fields=fields, exact=format_json_value(json.loads(arguments)), is_exact=True)

    @property
    def arguments(self) -> str:
        """The arguments as JSON. Raises `UnreadableValues`."""
        return self.exact if self.is_exact else fields_to_json(self.fields, self.typed)

    def list_fields(self, problems: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the fields with the entered values and the problems."""
        return [
            {
                "field": form_field,
                "value": self.typed.get(form_field.key, ""),
                "problem": problems.get(form_field.key, ""),
            }
            for form_field in self.fields
        ]


def try_tool(
    pages: ServicePages, request: MemberRequest, service: Service, definition_hash: str
) -> HttpResponse:
    """Show the form. A POST shows the confirmation, and a confirmed POST runs the tool."""
    definition = get_object_or_404(service.definitions, hash=definition_hash)
    if request.method != "POST":
        return _show_form(pages, request, definition)
    values = TypedValues.from_request(request, definition)
    act = request.POST.get("act", "")
    try:
        if act in ("to_json", "to_fields", "change"):
            return _render_form(
                pages, request, definition, _convert_values(values, definition, act)
            )
        return _run_or_confirm(pages, request, definition, values.arguments)
    except UnreadableValues as problem:
        return _render_form(pages, request, definition, values, str(problem), problem.problems)
    except Refused as refused:
        if "confirmed" in request.POST:
            with suppress(Refused):
                values = TypedValues.from_arguments(
                    definition, manual_runs.canonicalise(values.exact)
                )
        return _render_form(
            pages, request, definition, values, refused.sentence, status=refused.status
        )


def _show_form(
    pages: ServicePages, request: MemberRequest, definition: ToolDefinition
) -> HttpResponse:
    """Show the form, with the values of an earlier call or trial if the address names one."""
    copied = copy_values(request, definition)
    if isinstance(copied, HttpResponse):
        return copied
    if copied is None:
        return _render_form(pages, request, definition, _get_initial_values(request, definition))
    values = TypedValues.from_arguments(definition, copied.arguments)
    return _render_form(pages, request, definition, values, copied=copied, status=200)


def _get_initial_values(request: MemberRequest, definition: ToolDefinition) -> TypedValues:
    """Return the arguments of an earlier trial of this person, or no arguments."""
    trials = Trial.objects.filter(person=request.user, service=definition.service_id)
    trial_id = _parse_id(request.GET.get("like", ""))
    trial = trials.filter(pk=trial_id).first() if trial_id else None
    return TypedValues.from_arguments(definition, trial.arguments if trial else "{}")


def _convert_values(values: TypedValues, definition: ToolDefinition, act: str) -> TypedValues:
    """Return the same arguments in the other form. Raise `UnreadableValues` or `Refused`."""
    if act == "to_json":
        exact = manual_runs.canonicalise(fields_to_json(values.fields, values.typed))
        return TypedValues(
            fields=values.fields, exact=format_json_value(json.loads(exact)), is_exact=True
        )
    exact = manual_runs.canonicalise(values.exact)
    if act == "change":
        return TypedValues.from_arguments(definition, exact)
    return TypedValues(fields=values.fields, typed=json_to_fields(values.fields, exact))


def _run_or_confirm(
    pages: ServicePages, request: MemberRequest, definition: ToolDefinition, arguments: str
) -> HttpResponse:
    """Run the tool, or show the confirmation if the policy asks and the run is not confirmed."""
    person, trial_id = request.user, _parse_id(request.POST.get("trial", ""))
    if trial_id is None:
        raise Refused(NOT_SHOWN)
    if not Trial.objects.filter(pk=trial_id, person=person).exists():
        confirmed = _read_confirmation(trial_id, request.POST.get("confirmed", ""))
        proposal = manual_runs.propose(person, definition, arguments, trial_id)
        if proposal.judgement.decision.effect == "ask" and not confirmed:
            return _render_confirmation(pages, request, proposal)
        on_stored, typed = partial(_log_trial, pages, request), request.POST.get("typed", "")
        try:
            manual_runs.run(proposal, confirmed=confirmed, on_stored=on_stored, typed=typed)
        except NotTyped as refused:
            return _render_confirmation(pages, request, proposal, refused.sentence)
    return redirect("admin:mcpconfig_service_trial", definition.service_id, trial_id)


def _log_trial(pages: ServicePages, request: MemberRequest, trial: Trial) -> None:
    """Add the trial to the history of the service in the admin."""
    pages.log_change(
        request,
        trial.service,
        _("Tried the tool “%(tool)s” (%(trial)s).") % {"tool": trial.tool_name, "trial": trial.pk},
    )


def _render_confirmation(
    pages: ServicePages, request: MemberRequest, proposal: Proposal, problem: str = ""
) -> HttpResponse:
    """Show the complete proposal with a form that confirms exactly this proposal."""
    trial, judgement = proposal.as_trial(), proposal.judgement
    context = {
        "service": proposal.service,
        "tab": "tools",
        "title": _("Run this tool?"),
        "name": draw_hidden(call_values.get_title(trial)),
        "tool_name": draw_hidden(trial.tool_name),
        "proposal": proposal,
        "problem": problem,
        "typed": request.POST.get("typed", ""),
        **_translate_judgement(judgement),
        "arguments": call_values.draw_arguments(trial),
        "cautions": call_values.list_cautions(trial),
        "places": [
            call_values.get_host(trial),
            call_values.describe_account(
                trial, names_person=has_personal_headers(proposal.service)
            ),
        ],
        "exact": draw_hidden(proposal.arguments),
        "confirmed": _CONFIRMATION_SIGNER.sign_object(
            [proposal.binding, str(proposal.trial_id), time.time()]
        ),
    }
    return pages.render_page(request, "confirm", context, 422 if problem else 200)


def _read_confirmation(trial_id: uuid.UUID, signed: str) -> str:
    """Return the binding that this person confirmed, or an empty string if there is none."""
    if not signed:
        return ""
    try:
        binding, shown_for, shown_at = _CONFIRMATION_SIGNER.unsign_object(signed)
    except (BadSignature, ValueError):
        raise Refused(NOT_SHOWN) from None
    if shown_for != str(trial_id):
        raise Refused(NOT_SHOWN)
    refuse_haste(shown_at)
    return str(binding)


def _render_form(
    pages: ServicePages,
    request: MemberRequest,
    definition: ToolDefinition,
    values: TypedValues,
    problem: str = "",
    problems: Mapping[str, str] | None = None,
    status: int = 422,
    copied: CopiedValues | None = None,
) -> HttpResponse:
    service, person = definition.service, request.user
    judgement = judge(service, definition, person)
    recent = Trial.objects.filter(service=service, tool_name=definition.name, person=person)
    context = {
        "service": service,
        "tab": "tools",
        "title": _("Try: %(tool)s") % {"tool": definition},
        "definition": definition,
        "description": draw_hidden(definition.description),
        "claims": _describe_hints(definition),
        **_translate_judgement(judgement),
        "may_change": judgement.may_change,
        "barrier": _explain_barrier(service, definition, person),
        "values": values,
        "fields": values.list_fields(problems or {}),
        "schema": draw_hidden(format_json_value(definition.input_schema)),
        "trial_id": uuid.uuid4(),
        "problem": problem,
        "copied": copied,
        "recent": recent[:MAX_RECENT],
    }
    return pages.render_page(request, "try", context, status if problem else 200)


def _translate_judgement(judgement: Judgement) -> dict[str, Any]:
    risk, decision = judgement.risk, judgement.decision
    return {
        "risk": replace(risk, reasons=tuple(map(translate_reason, risk.reasons))),
        "decision": replace(decision, reason=translate_reason(decision.reason)),
    }


def _explain_barrier(service: Service, definition: ToolDefinition, person: Member) -> str:
    """Return why this person cannot run the tool, apart from the policy; empty if they can."""
    if not definition.is_current:
        return _("This definition of the tool is outdated. Fetch the tools of the service.")
    return explain_refusal(service, person)


HINT_TEXTS = {
    "readOnlyHint": (_lazy("Only reads."), _lazy("Changes something.")),
    "destructiveHint": (_lazy("May destroy something."), _lazy("Destroys nothing.")),
    "idempotentHint": (
        _lazy("Repeating it has no further effect."),
        _lazy("Repeating it has an effect again."),
    ),
    "openWorldHint": (_lazy("Accesses outside systems."), _lazy("Accesses no outside systems.")),
}


def _describe_hints(definition: ToolDefinition) -> list[str]:
    """Return the annotations of the tool as text."""
    hints = definition.annotations if isinstance(definition.annotations, dict) else {}
    known = ((texts, hints.get(name)) for name, texts in HINT_TEXTS.items())
    return [str(texts[0] if hint else texts[1]) for texts, hint in known if isinstance(hint, bool)]


def show_trial(
    pages: ServicePages, request: MemberRequest, service: Service, trial_id: uuid.UUID
) -> HttpResponse:
    """Show the result of a trial. Showing it does not call the service."""
    manual_runs.settle()
    trial = _get_trial(service, trial_id)
    context = {
        "service": service,
        "tab": "tools",
        "title": _("Trial: %(tool)s") % {"tool": call_values.get_title(trial)},
        "trial": trial,
        "why": translate_reason(trial.why),
        "arguments": call_values.draw_arguments(trial),
        "results": build_trial_pieces(trial),
        "problem": call_values.draw_problem(trial),
        "needs_sign_in": (trial.error or {}).get("kind") == "sign_in_needed",
    }
    return pages.render_page(request, "trial", context)


def serve_trial_content(
    request: MemberRequest, service: Service, trial_id: uuid.UUID, index: int
) -> HttpResponse:
    """Return the bytes of one content block of the result."""
    block = get_piece(_get_trial(service, trial_id).content, index)
    data = block.get("data") or (block.get("resource") or {}).get("blob")
    return build_bytes_response(request, data, save="save" in request.GET)


def _get_trial(service: Service, trial_id: uuid.UUID) -> Trial:
    trials = Trial.objects.select_related("service", "definition", "person")
    return get_object_or_404(trials, pk=trial_id, service=service)


def _parse_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
