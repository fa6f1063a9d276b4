"""What the models of one provider were used for so far: cost, tokens, calls, errors and people."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from chatapp.models import Member, ModelProvider, Turn, UsageOfDay
from chatapp.providers.access.usage import format_cost

MOST_MODELS = 50
MOST_PEOPLE = 10
ERROR_DAYS = 30
TOKENS = F("input_tokens") + F("output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    title: str
    cost: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """The use of one model, or by one person. `address` is a page that the reader may open."""

    name: str
    calls: str
    tokens: str
    cost: str
    last: date | None = None
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderUsage:
    periods: tuple[Period, ...]
    models: tuple[UsageLine, ...]
    more_models: int
    people: tuple[UsageLine, ...]
    last_used: str
    errors: str
    errors_address: str


def read_usage(provider: ModelProvider, reader: Member) -> ProviderUsage:
    """Return the usage of this provider in three statements. Models are found by the prefix of
    their ids, so those that were removed count as well."""
    rows = UsageOfDay.objects.filter(model__startswith=f"{provider.slug}:").order_by()
    today = timezone.now().date()
    by_model = sorted(
        _sum_by_model(rows, today), key=lambda row: (-row["whole_cost"], -row["whole_tokens"])
    )
    names = {row["model"] for row in by_model}
    return ProviderUsage(
        periods=(
            _describe_period(_("Today"), by_model, "today"),
            _describe_period(_("This month"), by_model, "month"),
            _describe_period(_("In all"), by_model, "whole"),
        ),
        models=tuple(_list_models(by_model[:MOST_MODELS])),
        more_models=len(names - {row["model"] for row in by_model[:MOST_MODELS]}),
        people=tuple(_list_people(rows.filter(day__gte=today.replace(day=1)), reader)),
        last_used=_describe_day(max((row["last"] for row in by_model), default=None)),
        **_count_errors(provider, reader),
    )


def _sum_by_model(rows: QuerySet[UsageOfDay], today: date) -> Iterable[Any]:
    periods = {"today": Q(day=today), "month": Q(day__gte=today.replace(day=1)), "whole": Q()}
    sums: dict[str, Any] = {}
    for name, period in periods.items():
        sums |= {
            f"{name}_cost": Sum("cost", filter=period, default=Decimal(0)),
            f"{name}_tokens": Sum(TOKENS, filter=period, default=0),
            f"{name}_calls": Sum("calls", filter=period, default=0),
            f"{name}_unpriced": Sum("unpriced_tokens", filter=period, default=0),
        }
    return rows.values("model", "currency").annotate(last=Max("day"), **sums)


def _describe_period(title: str, rows: list[dict[str, Any]], name: str) -> Period:
    costs: dict[str, Decimal] = {}
    for row in rows:
        if row["currency"]:
            cost = costs.get(row["currency"], Decimal(0)) + row[f"{name}_cost"]
            costs[row["currency"]] = cost
    tokens = sum(row[f"{name}_tokens"] for row in rows)
    detail = _("%(tokens)s tokens in %(calls)s calls") % {
        "tokens": intcomma(tokens),
        "calls": intcomma(sum(row[f"{name}_calls"] for row in rows)),
    }
    if unpriced := sum(row[f"{name}_unpriced"] for row in rows):
        share = _("%(tokens)s tokens without a price") % {"tokens": intcomma(unpriced)}
        detail = f"{detail}, {share}"
    return Period(title=title, cost=_write_costs(costs), detail=detail)


def _write_costs(costs: dict[str, Decimal]) -> str:
    written = (f"{format_cost(cost)} {currency}" for currency, cost in sorted(costs.items()))
    return " + ".join(written) or "–"


def _list_models(rows: list[dict[str, Any]]) -> list[UsageLine]:
    return [
        UsageLine(
            name=row["model"].partition(":")[2],
            calls=intcomma(row["whole_calls"]),
            tokens=intcomma(row["whole_tokens"]),
            cost=_write_costs({row["currency"]: row["whole_cost"]}) if row["currency"] else "–",
            last=row["last"],
        )
        for row in rows
    ]


def _list_people(rows: QuerySet[UsageOfDay], reader: Member) -> Iterable[UsageLine]:
    sums = rows.values("person_id", "person__username", "currency").annotate(
        spent=Sum("cost"), tokens=Sum(TOKENS), number=Sum("calls"), last=Max("day")
    )
    may_open = reader.has_perm("chatapp.view_member")
    for row in sums.order_by("-spent", "-tokens", "person_id")[:MOST_PEOPLE]:
        address = reverse("admin:chatapp_member_person", args=[row["person_id"]])
        yield UsageLine(
            name=row["person__username"],
            calls=intcomma(row["number"]),
            tokens=intcomma(row["tokens"]),
            cost=_write_costs({row["currency"]: row["spent"]}) if row["currency"] else "–",
            last=row["last"],
            address=address if may_open else "",
        )


def _count_errors(provider: ModelProvider, reader: Member) -> dict[str, str]:
    """Count the answers of the last days that failed. The index by date bounds what is read."""
    since = timezone.now() - timedelta(days=ERROR_DAYS)
    turns = Turn.objects.filter(created_at__gte=since, model__startswith=f"{provider.slug}:")
    failed = Count("pk", filter=Q(state=Turn.State.FAILED))
    counts = turns.order_by().aggregate(failed=failed, total=Count("pk"))
    text = _("%(failed)s of %(total)s answers failed in %(days)s days") % {
        "failed": intcomma(counts["failed"]),
        "total": intcomma(counts["total"]),
        "days": ERROR_DAYS,
    }
    address = ""
    if counts["failed"] and reader.has_perm("chatapp.view_turn"):
        filters = {
            "state__exact": Turn.State.FAILED,
            "model__startswith": f"{provider.slug}:",
            "created_at__gte": since.isoformat(timespec="seconds"),
        }
        address = f"{reverse('admin:chatapp_turn_changelist')}?{urlencode(filters)}"
    return {"errors": text, "errors_address": address}


def _describe_day(day: date | None) -> str:
    if day is None:
        return _("never used")
    return _("last used on %(date)s") % {"date": date_format(day, "DATE_FORMAT")}
