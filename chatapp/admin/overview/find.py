"""The search field of the admin: people, services, tools, models, rules, calls and operations by
name or number, each only for an admin who may open it."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from chatapp.models import ChatModel, Member, PolicyRule, ToolCall
from chatapp.rendering.hidden_characters import draw_hidden
from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.values.numbers import read_number

MOST_OF_A_KIND = 8
MAX_CHARACTERS = 100
# A call is named by the beginning of its id, as its page does.
LEAST_DIGITS = 6
UUID_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    title: Any
    help: Any
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKind:
    """What was found of one kind. `all_address` is the list with the same search."""

    title: str
    icon: str
    rows: tuple[Found, ...]
    has_more: bool = False
    all_address: str = ""


@require_safe
def show_found(request: HttpRequest) -> HttpResponse:
    person = cast(Member, request.user)
    text = " ".join(request.GET.get("q", "").replace("\0", "").split())[:MAX_CHARACTERS]
    context = {
        **admin.site.each_context(request),
        "title": _("Search"),
        "q": text,
        "kinds": list(find_all(person, text)) if text else [],
    }
    return TemplateResponse(request, "admin/find.html", context)


def find_all(person: Member, text: str) -> Iterator[FoundKind]:
    """Yield what this admin may open, kind by kind. Each kind is one statement, of few rows."""
    kinds: list[tuple[str, str, str, str, Callable[[str], Iterable[Found]]]] = [
        ("chatapp.view_member", _("People"), "people", "chatapp_member", _find_people),
        ("mcpconfig.view_service", _("Services"), "tools", "mcpconfig_service", _find_services),
        (
            *("mcpconfig.view_tooldefinition", _("Tools"), "tools"),
            *("mcpconfig_tooldefinition", _find_tools),
        ),
        ("chatapp.view_policyrule", _("Rules"), "shield", "chatapp_policyrule", _find_rules),
        ("chatapp.view_chatmodel", _("Models"), "model", "chatapp_chatmodel", _find_models),
        ("chatapp.view_toolcall", _("Tool calls"), "activity", "", _find_calls),
        ("mcpconfig.view_exchange", _("Operations"), "trace", "", _find_operations),
    ]
    if person.has_perms(("chatapp.view_member", "chatapp.view_policyrule")):
        # Behind the services, whose right it needs as well.
        kinds.insert(2, ("mcpconfig.view_service", _("Who can…"), "shield", "", _find_access))
    for right, title, icon, model, find in kinds:
        if not person.has_perm(right):
            continue
        rows = tuple(find(text))
        if rows:
            address = ""
            if model:
                address = f"{reverse(f'admin:{model}_changelist')}?{urlencode({'q': text})}"
            yield FoundKind(
                title=title,
                icon=icon,
                rows=rows[:MOST_OF_A_KIND],
                has_more=len(rows) > MOST_OF_A_KIND,
                all_address=address,
            )


def _find_people(text: str) -> Iterator[Found]:
    named = Q()
    for word in text.split():
        fields = ("username", "first_name", "last_name", "email")
        matches = Q()
        for field in fields:
            matches |= Q(**{f"{field}__icontains": word})
        named &= matches
    for person in Member.objects.filter(named).order_by("username")[: MOST_OF_A_KIND + 1]:
        yield Found(
            title=person.display_name,
            help=person.username,
            address=reverse("admin:chatapp_member_person", args=[person.pk]),
        )


def _find_services(text: str) -> Iterator[Found]:
    for service in _filter_services(text)[: MOST_OF_A_KIND + 1]:
        yield Found(
            title=str(service),
            help=service.url,
            address=reverse("admin:mcpconfig_service_status", args=[service.pk]),
        )


def _find_access(text: str) -> Iterator[Found]:
    for service in _filter_services(text)[:MOST_OF_A_KIND]:
        query = urlencode({"service": service.pk, "kind": "deletes"})
        yield Found(
            title=_("Who can delete something with %(service)s?") % {"service": service},
            help=_("Members and groups, tool by tool"),
            address=f"{reverse('admin:policy_who_can')}?{query}",
        )


def _filter_services(text: str) -> QuerySet[Service]:
    named = Q(name__icontains=text) | Q(title__icontains=text) | Q(url__icontains=text)
    return Service.objects.filter(named).order_by("name")


def _find_tools(text: str) -> Iterator[Found]:
    tools = ToolDefinition.objects.filter(is_current=True, name__icontains=text)
    rows = tools.select_related("service").order_by("name", "pk")[: MOST_OF_A_KIND + 1]
    for tool in rows:
        yield Found(
            title=draw_hidden(tool.name),
            help=str(tool.service),
            address=reverse("admin:mcpconfig_tooldefinition_change", args=[tool.pk]),
        )


def _find_rules(text: str) -> Iterator[Found]:
    named = Q(name__icontains=text)
    number = read_number(text.removeprefix("#"))
    if number is not None:
        named |= Q(pk=number)
    for rule in PolicyRule.objects.filter(named).order_by("pk")[: MOST_OF_A_KIND + 1]:
        yield Found(
            title=rule.name,
            help=_("Rule %(number)s") % {"number": rule.pk},
            address=reverse("admin:chatapp_policyrule_change", args=[rule.pk]),
        )


def _find_models(text: str) -> Iterator[Found]:
    named = Q(name__icontains=text) | Q(label__icontains=text)
    rows = ChatModel.objects.filter(named).select_related("provider")
    for model in rows.order_by("name", "pk")[: MOST_OF_A_KIND + 1]:
        yield Found(
            title=str(model),
            help=model.id_in_chat,
            address=reverse("admin:chatapp_chatmodel_change", args=[model.pk]),
        )


def _find_calls(text: str) -> Iterator[Found]:
    """Find calls by the beginning of their number. The key is a range of the primary key."""
    between = _read_range(text)
    if between is None:
        return
    calls = ToolCall.objects.filter(pk__gte=between[0], pk__lte=between[1])
    rows = calls.select_related("turn__conversation__owner").order_by("pk")
    for call in rows[: MOST_OF_A_KIND + 1]:
        yield Found(
            title=draw_hidden(call.tool_id),
            help=_("Call %(number)s of %(person)s, %(time)s")
            % {
                "number": str(call.pk)[:8],
                "person": call.turn.conversation.owner.display_name,
                "time": date_format(timezone.localtime(call.turn.created_at), "DATETIME_FORMAT"),
            },
            address=reverse("admin:chatapp_toolcall_change", args=[call.pk]),
        )


def _find_operations(text: str) -> Iterator[Found]:
    between = _read_range(text)
    if between is None or between[0] != between[1]:
        return
    found = Exchange.objects.filter(operation_id=between[0]).select_related("service").first()
    if found is not None:
        yield Found(
            title=f"{found.operation} ({found.service})",
            help=str(found.operation_id),
            address=reverse("admin:mcpconfig_exchange_operation", args=[found.operation_id]),
        )


def _read_range(text: str) -> tuple[uuid.UUID, uuid.UUID] | None:
    """Return the first and the last id that begin with this text, or None if none can."""
    digits = text.replace("-", "").lower()
    is_hex = digits.isascii() and all(digit in "0123456789abcdef" for digit in digits)
    if not is_hex or not LEAST_DIGITS <= len(digits) <= UUID_DIGITS:
        return None
    return uuid.UUID(digits.ljust(UUID_DIGITS, "0")), uuid.UUID(digits.ljust(UUID_DIGITS, "f"))
