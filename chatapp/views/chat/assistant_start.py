"""The assistant that a new chat is started with: what its page shows, and what its form sends."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.safestring import SafeString

from chatapp.conversations.assistants import AssistantChoice, find_services, may_use_model
from chatapp.conversations.variables import list_variables
from chatapp.models import Assistant, Member
from chatapp.rendering.hidden_characters import draw_look_alikes
from chatapp.tools.catalogue import strip_hidden
from chatapp.views.access import find_row, read_id

VARIABLE_PREFIX = "variable-"
CARRIED = ("assistant", "assistant_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of the instructions. `is_missing` marks one that was refused."""

    name: str
    value: str
    is_missing: bool

    @property
    def field_name(self) -> str:
        return VARIABLE_PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class StartView:
    """An assistant as the page of a new chat shows it. `services` is None if it does not limit
    them; `switched_off` are those that are off for the person, and `left_out` those that they may
    not use. `lacks_model` says the same of its model."""

    assistant: Assistant
    version: str
    instructions: SafeString
    variables: tuple[Variable, ...]
    services: tuple[str, ...] | None
    switched_off: tuple[str, ...]
    left_out: tuple[str, ...]
    lacks_model: bool

    @property
    def starters(self) -> list[tuple[str, bool]]:
        """The starters without hidden characters, and whether each has variables."""
        starters = map(strip_hidden, self.assistant.starters)
        return [(text, bool(list_variables(text))) for text in starters]


def build_start_view(
    person: Member,
    assistant: Assistant,
    values: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
) -> StartView:
    known = values or {}
    services = find_services(person, assistant)
    return StartView(
        assistant=assistant,
        version=assistant.version,
        instructions=draw_look_alikes(assistant.instructions),
        variables=tuple(
            Variable(name=name, value=known.get(name, ""), is_missing=name in missing)
            for name in list_variables(assistant.instructions)
        ),
        services=None if services.used is None else tuple(map(str, services.used)),
        switched_off=tuple(map(str, services.switched_off)),
        left_out=tuple(map(str, services.left_out)),
        lacks_model=bool(assistant.model) and not may_use_model(person, assistant.model),
    )


def read_choice(request: HttpRequest) -> AssistantChoice | None:
    """Return the assistant of the form. An id that is none is that of no assistant."""
    given = request.POST.get("assistant", "")
    if not given:
        return None
    return AssistantChoice(
        assistant_id=read_id(given) or uuid.UUID(int=0),
        version=request.POST.get("assistant_version", ""),
        values=read_values(request),
    )


def read_start_view(
    request: HttpRequest, person: Member, missing: Sequence[str] = ()
) -> StartView | None:
    """Return the assistant of the form with the values that were entered, or None if there is none
    or the person cannot use it any more."""
    usable = Assistant.filter_usable(person).select_related("owner")
    assistant = find_row(usable, request.POST.get("assistant", ""))
    if assistant is None:
        return None
    return build_start_view(person, assistant, read_values(request), missing)


def read_values(request: HttpRequest) -> dict[str, str]:
    """Return the values of the variables by name, without white space around them."""
    return {
        name.removeprefix(VARIABLE_PREFIX): str(value).replace("\r\n", "\n").strip()
        for name, value in request.POST.items()
        if name.startswith(VARIABLE_PREFIX)
    }


def list_carried(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the fields of the assistant that the forms of another page carry."""
    return [
        (name, str(value))
        for name, value in request.POST.items()
        if value and (name in CARRIED or name.startswith(VARIABLE_PREFIX))
    ]
