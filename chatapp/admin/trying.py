"""Trying a tool in the admin: a form for its values, what would run and why it asks, the run, and
what came of it."""

import json
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from chatapp.models import Member, Trial
from chatapp.rendering import call_values
from chatapp.rendering.readable_json import indented
from chatapp.rendering.results import pieces_of_trial
from chatapp.rendering.schema_form import Field, Misread, fields_of, json_of, typed_of
from chatapp.rendering.visible import draw_hidden
from chatapp.turns import trials
from chatapp.turns.refusals import SOONEST_SECONDS, Refused
from chatapp.turns.trials import NotTyped, Proposal, judge
from chatapp.views.results import bytes_of, piece_at
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.sharing import refusal_of

from .person import person_of

if TYPE_CHECKING:
    from mcpconfig.admin.services import ServiceAdmin

_CONFIRMED = Signer(salt="chatapp.trial.confirmed")
TOO_QUICK = "That was too quick to have been read. Look again, then decide."
NOT_SHOWN = "This form could not be read. Look again at what will run."
RECENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What a person typed: into the fields, or as exact JSON."""

    fields: list[Field]
    typed: Mapping[str, str] = field(default_factory=dict)
    exact: str = ""
    is_exact: bool = False

    @classmethod
    def sent(cls, request: HttpRequest, definition: ToolDefinition) -> "Values":
        fields = fields_of(definition.input_schema)
        return cls(
            fields=fields,
            typed=cast("Mapping[str, str]", request.POST),
            exact=request.POST.get("exact", ""),
            is_exact=not fields or "exact" in request.POST,
        )

    @classmethod
    def of_arguments(cls, definition: ToolDefinition, arguments: str) -> "Values":
        """As they would be typed: into the fields if they can hold them all."""
        fields = fields_of(definition.input_schema)
        try:
            return cls(fields=fields, typed=typed_of(fields, arguments), is_exact=not fields)
        except Misread:
            return cls(fields=fields, exact=indented(json.loads(arguments)), is_exact=True)

    @property
    def arguments(self) -> str:
        """The JSON that they make. Raises Misread."""
        return self.exact if self.is_exact else json_of(self.fields, self.typed)

    def shown(self, problems: Mapping[str, str]) -> list[dict[str, Any]]:
        """The fields with what was typed into them."""
        return [
            {
                "field": each,
                "value": self.typed.get(each.key, ""),
                "problem": problems.get(each.key, ""),
            }
            for each in self.fields
        ]


def try_tool(
    desk: "ServiceAdmin", request: HttpRequest, service: Service, definition_hash: str
) -> HttpResponse:
    """The form; with values posted, what they would run; with a yes to that, the run."""
    definition = get_object_or_404(service.definitions, hash=definition_hash)
    if request.method != "POST":
        return _form(desk, request, definition, _first_values(request, definition))
    values = Values.sent(request, definition)
    act = request.POST.get("act", "")
    try:
        if act in ("to_json", "to_fields", "change"):
            return _form(desk, request, definition, _turned(values, definition, act))
        return _go_on(desk, request, definition, values.arguments)
    except Misread as problem:
        return _form(desk, request, definition, values, str(problem), problem.problems)
    except Refused as refused:
        if "confirmed" in request.POST:
            with suppress(Refused):
                values = Values.of_arguments(definition, trials.readable(values.exact))
        return _form(desk, request, definition, values, refused.sentence, status=refused.status)


def _first_values(request: HttpRequest, definition: ToolDefinition) -> Values:
    """Empty, or those of an earlier trial of this person."""
    mine = Trial.objects.filter(person=person_of(request), service=definition.service_id)
    earlier = _id_of(request.GET.get("like", ""))
    known = mine.filter(pk=earlier).first() if earlier else None
    return Values.of_arguments(definition, known.arguments if known else "{}")


def _turned(values: Values, definition: ToolDefinition, act: str) -> Values:
    """The same values in the other form. Raises Misread and Refused where that cannot be."""
    if act == "to_json":
        exact = trials.readable(json_of(values.fields, values.typed))
        return Values(fields=values.fields, exact=indented(json.loads(exact)), is_exact=True)
    exact = trials.readable(values.exact)
    if act == "change":
        return Values.of_arguments(definition, exact)
    return Values(fields=values.fields, typed=typed_of(values.fields, exact))


def _go_on(
    desk: "ServiceAdmin", request: HttpRequest, definition: ToolDefinition, arguments: str
) -> HttpResponse:
    """Run what needs no yes or has it; ask about the rest."""
    person, trial_id = person_of(request), _id_of(request.POST.get("trial", ""))
    if trial_id is None:
        raise Refused(NOT_SHOWN)
    if not Trial.objects.filter(pk=trial_id, person=person).exists():
        confirmed = _confirmed(trial_id, request.POST.get("confirmed", ""))
        proposal = trials.propose(person, definition, arguments, trial_id)
        if proposal.judgement.decision.effect == "ask" and not confirmed:
            return _confirmation(desk, request, proposal)
        note, typed = partial(_note, desk, request), request.POST.get("typed", "")
        try:
            trials.run(proposal, confirmed=confirmed, noted=note, typed=typed)
        except NotTyped as refused:
            return _confirmation(desk, request, proposal, refused.sentence)
    return redirect("admin:mcpconfig_service_trial", definition.service_id, trial_id)


def _note(desk: "ServiceAdmin", request: HttpRequest, trial: Trial) -> None:
    """In the service's history, as it is sent."""
    desk.log_change(request, trial.service, f"Tried the tool “{trial.tool_name}” ({trial.pk}).")


def _confirmation(
    desk: "ServiceAdmin", request: HttpRequest, proposal: Proposal, problem: str = ""
) -> HttpResponse:
    """Everything that a yes is about, and a form that says yes to exactly that."""
    looked_at, judged = proposal.as_trial(), proposal.judgement
    context = {
        "service": proposal.service,
        "tab": "tools",
        "title": "Run this tool?",
        "name": draw_hidden(call_values.title_of(looked_at)),
        "tool_name": draw_hidden(looked_at.tool_name),
        "proposal": proposal,
        "problem": problem,
        "typed": request.POST.get("typed", ""),
        "risk": judged.risk,
        "decision": judged.decision,
        "arguments": call_values.arguments_of(looked_at),
        "cautions": call_values.cautions_of(looked_at),
        "places": [call_values.host_of(looked_at), call_values.account_of(looked_at)],
        "exact": draw_hidden(proposal.arguments),
        "confirmed": _CONFIRMED.sign_object(
            [proposal.binding, str(proposal.trial_id), time.time()]
        ),
    }
    return desk.page(request, "confirm", context, 422 if problem else 200)


def _confirmed(trial_id: uuid.UUID, signed: str) -> str:
    """The binding that this person was shown and said yes to; empty where nothing was asked."""
    if not signed:
        return ""
    try:
        binding, shown_for, shown_at = _CONFIRMED.unsign_object(signed)
    except (BadSignature, ValueError):
        raise Refused(NOT_SHOWN) from None
    if shown_for != str(trial_id):
        raise Refused(NOT_SHOWN)
    if time.time() - shown_at < SOONEST_SECONDS:
        raise Refused(TOO_QUICK, 409)
    return str(binding)


def _form(
    desk: "ServiceAdmin",
    request: HttpRequest,
    definition: ToolDefinition,
    values: Values,
    problem: str = "",
    problems: Mapping[str, str] | None = None,
    status: int = 422,
) -> HttpResponse:
    service, person = definition.service, person_of(request)
    judged = judge(service, definition, person)
    recent = Trial.objects.filter(service=service, tool_name=definition.name, person=person)
    context = {
        "service": service,
        "tab": "tools",
        "title": f"Try: {definition}",
        "definition": definition,
        "description": draw_hidden(definition.description),
        "claims": _claims(definition),
        "risk": judged.risk,
        "decision": judged.decision,
        "may_change": judged.may_change,
        "barrier": _barrier(service, definition, person),
        "values": values,
        "fields": values.shown(problems or {}),
        "schema": draw_hidden(indented(definition.input_schema)),
        "trial_id": uuid.uuid4(),
        "problem": problem,
        "recent": recent[:RECENT],
    }
    return desk.page(request, "try", context, status if problem else 200)


def _barrier(service: Service, definition: ToolDefinition, person: Member) -> str:
    """What keeps this person from running the tool, whatever the values; policy's word aside."""
    if not definition.is_current:
        return "The service does not offer the tool in this form any more. Fetch its tools."
    return refusal_of(service, person)


CLAIMS = {
    "readOnlyHint": ("only reads", "changes something"),
    "destructiveHint": ("may destroy something", "destroys nothing"),
    "idempotentHint": ("does no more when repeated", "does it again when repeated"),
    "openWorldHint": ("reaches outside", "stays inside"),
}


def _claims(definition: ToolDefinition) -> list[str]:
    """What the service says of the tool, in words."""
    hints = definition.annotations if isinstance(definition.annotations, dict) else {}
    said = ((words, hints.get(name)) for name, words in CLAIMS.items())
    return [words[0] if hint else words[1] for words, hint in said if isinstance(hint, bool)]


def trial(
    desk: "ServiceAdmin", request: HttpRequest, service: Service, trial_id: uuid.UUID
) -> HttpResponse:
    """What came of one trial; reading it again sends nothing."""
    trials.settle()
    found = _trial_of(service, trial_id)
    context = {
        "service": service,
        "tab": "tools",
        "title": f"Tried: {call_values.title_of(found)}",
        "trial": found,
        "arguments": call_values.arguments_of(found),
        "results": pieces_of_trial(found),
        "problem": call_values.problem_of(found),
        "needs_sign_in": (found.error or {}).get("kind") == "sign_in_needed",
    }
    return desk.page(request, "trial", context)


def trial_content(
    request: HttpRequest, service: Service, trial_id: uuid.UUID, index: int
) -> HttpResponse:
    """The bytes of one block of the tool's result."""
    block = piece_at(_trial_of(service, trial_id).content, index)
    data = block.get("data") or (block.get("resource") or {}).get("blob")
    return bytes_of(data, save="save" in request.GET)


def _trial_of(service: Service, trial_id: uuid.UUID) -> Trial:
    known = Trial.objects.select_related("service", "definition", "person")
    return get_object_or_404(known, pk=trial_id, service=service)


def _id_of(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
