"""Assistants: what a new chat takes over from one.

A chat gets copies of the instructions and the parameters, and switches of its own for the services.
An assistant gives nobody access to a model or a service: the person's own access, the rules and the
approvals count as in any chat.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.models import Assistant, Conversation, Member, ToolSwitch
from chatapp.models.conversations.conversation import MAX_INSTRUCTIONS_CHARACTERS
from chatapp.models.presets.assistant import ASSISTANTS_PER_PERSON, NAME_CHARACTERS
from chatapp.models.presets.sharing import Audience
from chatapp.people.refused import Refused
from chatapp.providers.access.model_choice import choose_model
from chatapp.providers.events import ProviderError
from chatapp.tool_menu.turn_selection import load_switches
from chatapp.tools.catalogue import strip_hidden
from mcpconfig.models import Service

from .assistant_pictures import copy_picture
from .variables import VARIABLE_CHARACTERS, fill_variables, list_missing, list_variables

GONE = gettext_lazy(
    "Your message was not sent. The assistant was deleted, or you can no longer use it. To start "
    "this chat without it, send your message again."
)


class AssistantRefused(Refused):
    """A chat was not started with an assistant. `missing` are the variables to fill in."""

    def __init__(self, sentence: str, *, status: int = 422, missing: Sequence[str] = ()) -> None:
        super().__init__(sentence, status)
        self.missing = missing


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantChoice:
    """The assistant that a person chose for a new chat. `version` is the one that they were shown,
    and `values` are those of its variables."""

    assistant_id: uuid.UUID
    version: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStart:
    """What a new chat takes over."""

    assistant: Assistant
    instructions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesOfAssistant:
    """The services of an assistant for one person. `used` is None if it does not limit them.
    `switched_off` are those that are off for the person in a new chat, and `left_out` those that
    they may not use."""

    used: list[Service] | None
    switched_off: list[Service]
    left_out: list[Service]


def find_services(person: Member, assistant: Assistant) -> ServicesOfAssistant:
    if not assistant.limits_services:
        return ServicesOfAssistant(used=None, switched_off=[], left_out=[])
    usable = set(Service.objects.for_member(person).values_list("pk", flat=True))
    listed = list(assistant.services.order_by("name"))
    mine = [each for each in listed if each.pk in usable]
    switches = load_switches(person, None)
    return ServicesOfAssistant(
        used=[each for each in mine if switches.is_on(each.name, "")],
        switched_off=[each for each in mine if not switches.is_on(each.name, "")],
        left_out=[each for each in listed if each.pk not in usable],
    )


def may_use_model(person: Member, model: str) -> bool:
    try:
        choose_model(model, person)
    except ProviderError:
        return False
    return True


def load_start(person: Member, choice: AssistantChoice) -> ChatStart:
    """Return what the new chat takes over, inside the transaction that creates it. Raises
    AssistantRefused, also if the assistant changed after the person had read it."""
    rows = Assistant.filter_usable(person).select_for_update(of=("self",), no_key=True)
    assistant = rows.filter(pk=choice.assistant_id).first()
    if assistant is None:
        raise AssistantRefused(str(GONE), status=409)
    if assistant.version != choice.version:
        sentence = _(
            "Your message was not sent. %(name)s changed after you opened this page. Check its "
            "instructions and services, then send your message again."
        )
        raise AssistantRefused(sentence % {"name": assistant}, status=409)
    _check_values(assistant, choice.values)
    instructions = fill_variables(assistant.instructions, choice.values)
    if len(instructions) > MAX_INSTRUCTIONS_CHARACTERS:
        sentence = _(
            "With these values, the instructions of %(name)s have %(count)s characters. The limit "
            "is %(most)s. Shorten a value."
        )
        most = intcomma(MAX_INSTRUCTIONS_CHARACTERS)
        count = intcomma(len(instructions))
        raise AssistantRefused(sentence % {"name": assistant, "count": count, "most": most})
    return ChatStart(assistant=assistant, instructions=instructions)


def _check_values(assistant: Assistant, values: Mapping[str, str]) -> None:
    names = list_variables(assistant.instructions)
    if missing := list_missing(names, values):
        sentence = _("%(name)s needs more information. Fill in: %(fields)s.")
        fields = ", ".join(missing)
        raise AssistantRefused(sentence % {"name": assistant, "fields": fields}, missing=missing)
    for name in names:
        if len(values[name]) > VARIABLE_CHARACTERS or "\x00" in values[name]:
            raise AssistantRefused(explain_bad_value(name, values[name]), missing=[name])


def explain_bad_value(name: str, value: str, most: int = VARIABLE_CHARACTERS) -> str:
    """Return why this value of a variable is refused, or an empty text."""
    if "\x00" in value:
        sentence = _("“%(field)s” contains a character that cannot be stored. Remove it.")
        return sentence % {"field": name}
    if len(value) > most:
        sentence = _("“%(field)s” has %(count)s characters. The limit is %(most)s.")
        return sentence % {
            "field": name,
            "count": intcomma(len(value)),
            "most": intcomma(most),
        }
    return ""


def switch_services(conversation: Conversation, assistant: Assistant) -> None:
    """Switch off, in this new chat, the services that are not among the assistant's, also those
    that the person cannot use now: they may get access later.

    It switches nothing on: what the person has switched off for all chats stays off.
    """
    if not assistant.limits_services:
        return
    others = Service.objects.exclude(pk__in=assistant.services.values("pk"))
    ToolSwitch.objects.bulk_create(
        ToolSwitch(person=conversation.owner, conversation=conversation, service_id=pk, is_on=False)
        for pk in others.values_list("pk", flat=True)
    )


def find_assistant_of(conversation: Conversation) -> Assistant | None:
    """Return what this chat began with, if its person can still use that."""
    if conversation.assistant_id is None:
        return None
    usable = Assistant.filter_usable(conversation.owner).select_related("owner")
    return usable.filter(pk=conversation.assistant_id).first()


@transaction.atomic
def duplicate(person: Member, source: Assistant) -> Assistant:
    """Return a copy that belongs to this person, for them alone. It has only the services and the
    model that they may use. Raises Refused if they have as many as they may have.

    Texts lose the characters that nobody sees: somebody else may have written them, and in the copy
    they would count as the person's own.
    """
    check_number(person)
    services = source.services.filter(pk__in=Service.objects.for_member(person).values("pk"))
    name = _("Copy of %(name)s") % {"name": source.name}
    copy = Assistant.objects.create(
        owner=person,
        name=name[:NAME_CHARACTERS],
        description=source.description,
        model=source.model if may_use_model(person, source.model) else "",
        effort=source.effort,
        temperature=source.temperature,
        output_tokens=source.output_tokens,
        mode=source.mode,
        uses_tools=source.uses_tools,
        limits_services=source.limits_services,
        instructions=strip_hidden(source.instructions),
        starters=[text for text in map(strip_hidden, source.starters) if text.strip()],
        audience=Audience.OWNER,
    )
    if source.limits_services:
        copy.services.set(services)
    copy_picture(source, copy)
    return copy


def check_exists(assistant: Assistant) -> None:
    """Raise Refused if the assistant was deleted meanwhile. Locks it until the commit."""
    if not Assistant.objects.select_for_update().filter(pk=assistant.pk).exists():
        raise Refused(_("The assistant was deleted meanwhile."), 409)


def check_number(person: Member) -> None:
    """Raise Refused if this person has as many assistants as they may have. Locks the person until
    the commit, so that concurrent requests do not exceed the limit."""
    Member.objects.select_for_update(no_key=True).get(pk=person.pk)
    if Assistant.objects.filter(owner=person).count() >= ASSISTANTS_PER_PERSON:
        sentence = _("You have %(count)d assistants, which is the limit. Delete one first.")
        raise Refused(sentence % {"count": ASSISTANTS_PER_PERSON}, 409)
