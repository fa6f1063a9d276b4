"""What needs an admin, counted in one statement for the menu of every page. Providers are counted
so that their keys are checked only where there are some."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Value
from django.utils import timezone
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.approvals.reminders import MAX_REFUSALS
from chatapp.background.results import filter_late, is_in_database
from chatapp.models import Approval, MailPreference, ModelProvider, PolicyChange, ToolCall
from mcpconfig.models import Service, ToolDefinition, ToolSetting

# An approval that is open for longer is shown to admins.
WAITS_LONG = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    failing_services: int = 0
    unconfirmed_tools: int = 0
    waiting_approvals: int = 0
    unknown_outcomes: int = 0
    waiting_changes: int = 0
    failed_tasks: int = 0
    late_tasks: int = 0
    refused_addresses: int = 0
    providers: int = 0


def count_attention() -> Attention:
    counted: list[tuple[str, QuerySet[Any]]] = [
        ("failing_services", Service.objects.filter(is_enabled=True, last_error__isnull=False)),
        ("unconfirmed_tools", filter_unconfirmed()),
        ("waiting_approvals", filter_waiting_long()),
        ("waiting_changes", PolicyChange.objects.filter(state=PolicyChange.State.WAITING)),
        ("unknown_outcomes", ToolCall.objects.filter(state=ToolCall.State.UNKNOWN)),
        ("providers", ModelProvider.objects.filter(is_enabled=True)),
    ]
    if is_in_database():
        failed = DBTaskResult.objects.filter(status=TaskResultStatus.FAILED)
        counted += [("failed_tasks", failed), ("late_tasks", filter_late())]
    if settings.SENDS_MAIL:
        refused = MailPreference.objects.filter(is_on=False, refusals__gte=MAX_REFUSALS)
        counted.append(("refused_addresses", refused))
    rows = [_count(name, queryset) for name, queryset in counted]
    return Attention(**dict(rows[0].union(*rows[1:], all=True)))


def _count(name: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    named: QuerySet[Any] = rows.order_by().annotate(what=Value(name)).values("what")
    counted: QuerySet[Any] = named.annotate(number=Count("pk")).values_list("what", "number")
    return counted


def filter_waiting_long() -> QuerySet[Approval]:
    before = timezone.now() - WAITS_LONG
    return Approval.objects.filter(state=Approval.State.OPEN, created_at__lt=before)


def filter_unconfirmed() -> QuerySet[ToolDefinition]:
    """Return the tools of enabled services that no admin has confirmed or switched off."""
    settings = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("name"))
    settled = settings.filter(Q(confirmed_hash=OuterRef("hash")) | Q(is_enabled=False))
    current = ToolDefinition.objects.filter(is_current=True, service__is_enabled=True)
    return current.filter(~Exists(settled))
