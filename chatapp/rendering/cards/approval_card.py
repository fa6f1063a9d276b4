"""The values of the approval card: what it asks, what a person needs to decide, and the form that
changes the values of a call before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.models import Approval, ToolCall
from chatapp.permissions.consequences import list_consequences
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering import call_values
from chatapp.rendering.call_values import find_definition
from chatapp.rendering.cards.schema_form import (
    Field,
    UnreadableValues,
    build_fields,
    fields_to_json,
    json_to_fields,
)
from chatapp.rendering.definition_changes import compare_definitions
from chatapp.rendering.hidden_characters import draw_hidden, has_hidden
from chatapp.rendering.page_values import CallFacts
from chatapp.rendering.secret_mask import is_secret, mask_secrets_in_json

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedValues:
    """Refused values: what was typed in each field, and the problem of each wrong field."""

    values: Mapping[str, str]
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueField:
    field: Field
    value: str
    problem: str = ""
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesForm:
    """The form: `fields` where the values fit into fields, otherwise `exact` JSON. `is_open` is set
    after refused values, so that the form is shown at once."""

    fields: tuple[ValueField, ...] = ()
    exact: str = ""
    is_open: bool = False


def build_edit_form(call: ToolCall, typed: RefusedValues | None = None) -> ValuesForm:
    """Return the form for the values of a call whose values can be changed."""
    fields = _build_fields(call)
    is_open = typed is not None and typed.values.get("decision") == "change"
    values = typed.values if typed and is_open else _fill_in_values(call, fields)
    problems = typed.problems if typed else {}
    if not fields:
        return ValuesForm(exact=values.get(EXACT, call.arguments), is_open=is_open)
    shown = (
        ValueField(
            field=field,
            value=values.get(field.key, ""),
            problem=problems.get(field.key, ""),
            is_secret=is_secret(field.name, values.get(field.key, "")),
        )
        for field in fields
    )
    return ValuesForm(fields=tuple(shown), is_open=is_open)


def explain_fixed_values(call: ToolCall) -> str:
    """Return why the values of this call cannot be changed; empty if they can."""
    if find_definition(call) is None:
        return _("You cannot edit the values: the definition of this tool is not known.")
    if has_hidden(call.arguments):
        return _(
            "Values with hidden characters can’t be edited. To change them, choose “Deny with a "
            "reason”, and tell the assistant what to change."
        )
    return ""


def read_edited_json(call: ToolCall, posted: Mapping[str, str]) -> str:
    """Return the arguments of a posted form as JSON. Raises UnreadableValues."""
    fields = _build_fields(call)
    return fields_to_json(fields, posted) if fields else posted.get(EXACT, "")


def _build_fields(call: ToolCall) -> list[Field]:
    """Return no fields if there is a value that no field can hold."""
    definition = find_definition(call)
    fields = build_fields(definition.input_schema if definition else None)
    try:
        json_to_fields(fields, call.arguments)
    except (UnreadableValues, ValueError):
        return []
    return fields


def _fill_in_values(call: ToolCall, fields: list[Field]) -> Mapping[str, str]:
    return json_to_fields(fields, call.arguments) if fields else {}


# The lasting ways to allow a call: the form value, the button and its meaning.
WAYS: "dict[str, tuple[str, StrOrPromise, StrOrPromise]]" = {
    "conversation": (
        "conversation",
        gettext_lazy("In this chat"),
        gettext_lazy("Applies in this chat until the tool changes."),
    ),
    "always": (
        "always",
        gettext_lazy("Always for this tool"),
        gettext_lazy("Applies in all your chats until the tool changes."),
    ),
    "service": (
        "service",
        gettext_lazy("Always for this service"),
        gettext_lazy("Applies in all your chats to its tools until they change. New tools ask."),
    ),
}


def render_values(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call and its error."""
    return {
        "arguments": call_values.draw_arguments(call),
        "problem": call_values.draw_problem(call),
    }


def build_approval_card(
    call: ToolCall, approval: Approval, facts: CallFacts, changed: RefusedValues | None
) -> dict[str, Any]:
    """Return what the card shows beside the values of every call. `changed` are refused values."""
    fixed = explain_fixed_values(call)
    return render_values(call) | {
        "arguments": call_values.draw_arguments(call, facts.previous, facts.copied or {}),
        "left_out": call_values.draw_left_out(call, facts.previous),
        "explained": explain_call(call),
        "number": facts.number,
        "has_to_be_read": True,
        "risk": call.risk,
        # The card is replaced when the first of two signatures is given.
        "keep": f"{approval.binding}{'-signed' if approval.waits_for_second else ''}",
        "places": call_values.draw_places(
            call_values.get_host(call),
            call_values.describe_account(call, names_person=facts.names_person),
        ),
        "answer_to": reverse("decide", args=[call.pk]),
        "exact": draw_hidden(exact := mask_secrets_in_json(call.arguments)),
        "is_veiled": exact != call.arguments,
        "why": draw_hidden(translate_reason(call.why)),
        "cautions": call_values.list_cautions(call),
        "reasons": [
            draw_hidden(translate_reason(reason))
            for reason in map(str, call.reasons)
            if reason not in call.why
        ],
        "note": draw_hidden(call.note),
        "ways": [WAYS[scope] for scope in facts.scopes],
        "values_form": None if fixed else build_edit_form(call, changed),
        "values_fixed": fixed,
        "changes": compare_definitions(facts.definition_before, call.definition)
        if call.definition
        else [],
    }


# Of all names and values of a call that is decided in its row.
ROW_CHARACTERS = 160
# Of the arguments as they are stored. Each shown character may be written with six.
ROW_JSON_CHARACTERS = 1_200
ROW_ARGUMENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDecision:
    """What the row of a call in the inbox shows so that it can be decided there: with the names and
    the risk of every row, all that its card says."""

    version: str
    answer_to: str
    tool_id: SafeString
    arguments: tuple[call_values.Argument, ...]
    why: SafeString
    reasons: tuple[SafeString, ...]


def is_plain_for_row(call: ToolCall) -> bool:
    """Whether the call itself may be decided in a row. Not so: a high or unknown risk, a second
    approval, a call of a program, a warning, a note of an admin, hidden characters, secrets, and
    long arguments."""
    approval: Approval = call.approval
    if not approval.may_be_batched or call.turn.is_direct or call.note:
        return False
    if len(call.arguments) > ROW_JSON_CHARACTERS or call_values.list_cautions(call):
        return False
    return not has_hidden(call.arguments) and mask_secrets_in_json(call.arguments) == call.arguments


def build_row_decision(call: ToolCall, facts: CallFacts) -> RowDecision | None:
    """Return what the row of a waiting call shows, or None if it has to be decided on its card.

    A decision binds what was shown, so a row has buttons only if nothing is folded, hidden or left
    out in it. Whatever asks for a closer look is on the card alone, such as a changed tool, and
    values that were copied or are missing.
    """
    if not is_plain_for_row(call) or facts.copied is None or facts.copied:
        return None
    if facts.definition_before or call_values.draw_left_out(call, facts.previous):
        return None
    arguments = call_values.draw_arguments(call, facts.previous)
    said = "".join(f"{each.name}{each.value}" for each in arguments)
    if len(arguments) > ROW_ARGUMENTS or len(said) > ROW_CHARACTERS or "\n" in said:
        return None
    return RowDecision(
        version=call.approval.binding,
        answer_to=reverse("decide", args=[call.pk]),
        tool_id=draw_hidden(call.tool_id),
        arguments=tuple(arguments),
        why=draw_hidden(translate_reason(call.why)),
        reasons=tuple(
            draw_hidden(translate_reason(reason))
            for reason in map(str, call.reasons)
            if reason not in call.why
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the tool does according to its service (or to Countersign, for built-in tools), why the
    call needs approval, and what could go wrong."""

    is_own: bool
    does: SafeString
    asks: list[SafeString]
    risks: list[str]


def explain_call(call: ToolCall) -> Explanation:
    """Built from the definition, the decision and the evidence for the risk, without a model."""
    definition = find_definition(call)
    asks = [
        translate_reason(call.why),
        *(_("An admin says: %(note)s") % {"note": note} for note in [call.note] if note),
    ]
    reasons = [str(reason) for reason in call.reasons]
    is_own = definition is not None and definition.is_own
    return Explanation(
        is_own=is_own,
        does=draw_hidden(definition.description if definition else ""),
        asks=[draw_hidden(each) for each in asks if each],
        risks=[translate_reason(reason) for reason in reasons]
        if is_own
        else list_consequences([*reasons, call.why], call.risk),
    )
