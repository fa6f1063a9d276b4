"""The cost of model calls, usage in a month, and allowances."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import F, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _

from chatapp.models import Allowance, ChatModel, Member, Step, UsageOfDay
from chatapp.providers.events import Usage
from chatapp.providers.model_facts import get_cache_write_share
from chatapp.server.compiled_queries import compiled, compiled_update

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million tokens.

    `cached` is for tokens read from the provider's cache, `kept` for tokens written to it.
    """

    input: Decimal
    cached: Decimal
    kept: Decimal
    output: Decimal
    currency: str

    def compute_cost(self, usage: Usage) -> Decimal:
        cached = min(usage.cached_tokens, usage.input_tokens)
        kept = min(usage.cache_write_tokens, usage.input_tokens - cached)
        fresh = usage.input_tokens - cached - kept
        total = fresh * self.input + cached * self.cached + kept * self.kept
        total += usage.output_tokens * self.output
        return (total / MILLION).quantize(Decimal("0.00000001"))


def find_price(facts: ChatModel | None) -> Price | None:
    """Return the price that an admin set, or None unless input and output both have one."""
    if facts is None or facts.input_price is None or facts.output_price is None:
        return None
    cached, kept = facts.cached_price, facts.cache_write_price
    if kept is None:
        kept = facts.input_price * get_cache_write_share(facts.provider.kind, facts.name)
    return Price(
        input=facts.input_price,
        cached=facts.input_price if cached is None else cached,
        kept=kept,
        output=facts.output_price,
        currency=facts.currency,
    )


def add_usage(person_id: int, model: str, usage: Usage, price: Price | None) -> None:
    """Add a model call to the person's day, in the transaction of the caller."""
    tokens = usage.input_tokens + usage.output_tokens
    key: dict[str, Any] = {
        "person_id": person_id,
        "day": timezone.now().date(),
        "model": model,
        "currency": price.currency if price else "",
    }
    amounts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens, 0 if price else tokens)
    added = (*key.values(), *amounts, price.compute_cost(usage) if price else Decimal(0))
    if not _add_to_day(*added):  # the first of this day
        UsageOfDay.objects.get_or_create(**key)
        _add_to_day(*added)


@compiled_update
def _add_to_day(
    person_id: int,
    day: date,
    model: str,
    currency: str,
    input_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    unpriced_tokens: int,
    cost: Decimal,
) -> tuple[QuerySet[UsageOfDay], dict[str, Any]]:
    of_day = UsageOfDay.objects.filter(person_id=person_id, day=day, model=model, currency=currency)
    return of_day, {
        "calls": F("calls") + 1,
        "input_tokens": F("input_tokens") + input_tokens,
        "cached_tokens": F("cached_tokens") + cached_tokens,
        "output_tokens": F("output_tokens") + output_tokens,
        "unpriced_tokens": F("unpriced_tokens") + unpriced_tokens,
        "cost": F("cost") + cost,
    }


def add_summary_usage(turn_id: UUID, used: Usage, price: Price | None) -> None:
    """Add the usage of a summary to the step of this turn that needs it."""
    calling = Step.objects.filter(turn=turn_id, state=Step.State.CALLING)
    _add_extra_usage(calling, used, price)


def add_title_usage(turn_id: UUID, used: Usage, price: Price | None) -> None:
    """Add the usage of a chat's title to the last step of the turn that it was made after. Its cost
    is left out if that step was paid in another currency: a step has one."""
    last = Step.objects.filter(turn=turn_id).last()
    if last is None:
        return
    if price is not None and last.currency not in ("", price.currency):
        price = None
    _add_extra_usage(Step.objects.filter(pk=last.pk), used, price)


def _add_extra_usage(steps: QuerySet[Step], used: Usage, price: Price | None) -> None:
    steps.update(
        summary_input_tokens=F("summary_input_tokens") + used.input_tokens,
        summary_output_tokens=F("summary_output_tokens") + used.output_tokens,
        **_build_cost_update(price, used),
    )


def add_cost(step_id: int, price: Price, used: Usage) -> None:
    """Add the cost of a model call to its step."""
    Step.objects.filter(pk=step_id).update(**_build_cost_update(price, used))


def _build_cost_update(price: Price | None, used: Usage) -> dict[str, Any]:
    """Return the fields of a step to update after one more model call."""
    if price is None:
        return {}
    cost = Coalesce(F("cost"), Decimal(0)) + price.compute_cost(used)
    return {"cost": cost, "currency": price.currency}


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowanceUse:
    """One allowance and its usage in this month."""

    allowance: Allowance
    tokens: int
    cost: Decimal

    @property
    def share(self) -> float:
        """The part that is used; 1.0 or more when all of it is."""
        shares = [0.0]
        if self.allowance.tokens:
            shares.append(self.tokens / self.allowance.tokens)
        if self.allowance.cost:
            shares.append(float(self.cost / self.allowance.cost))
        return max(shares)

    @property
    def sentence(self) -> str:
        """Why no model is asked any more, or an empty text."""
        for used, limit in self._amounts():
            if limit is not None:
                values = {"used": used, "limit": limit}
                if self.allowance.is_shared:
                    return _("Your group has used %(used)s of its %(limit)s a month.") % values
                return _("You have used %(used)s of your %(limit)s a month.") % values
        return ""

    def _amounts(self) -> Iterable[tuple[str, str | None]]:
        limit, cost = self.allowance.tokens, self.allowance.cost
        is_over = limit is not None and self.tokens >= limit
        yield (
            intcomma(self.tokens),
            _("%(count)s tokens") % {"count": intcomma(limit)} if is_over else None,
        )
        limit_cost = None
        if cost is not None and self.cost >= cost:
            limit_cost = f"{format_cost(cost)} {self.allowance.currency}"
        yield format_cost(self.cost), limit_cost


def format_cost(cost: Decimal) -> str:
    """Return the amount with two decimals and separators of thousands, without its currency."""
    return number_format(cost, 2, force_grouping=True)


def list_allowance_use(person: Member, today: date | None = None) -> list[AllowanceUse]:
    """Return the use of every allowance of this person, the most used first."""
    day = today or timezone.now().date()
    uses = [_measure_allowance(allowance, person, day) for allowance in _load_allowances(person.pk)]
    return sorted(uses, key=lambda use: use.share, reverse=True)


@compiled
def _load_allowances(person_id: int) -> QuerySet[Allowance]:
    return Allowance.objects.for_member(person_id).select_related("group", "person")


def find_used_up_allowance(person: Member) -> str:
    """Return a sentence about an allowance that is used up, or an empty text."""
    return next((use.sentence for use in list_allowance_use(person) if use.sentence), "")


def describe_renewal(today: date | None = None) -> str:
    """Describe what to do about an allowance that is used up."""
    first = (today or timezone.now().date()).replace(day=1)
    following = (
        first.replace(month=first.month + 1)
        if first.month < 12
        else first.replace(year=first.year + 1, month=1)
    )
    return _("It resets on %(date)s. An admin can raise it.") % {
        "date": date_format(following, "MONTH_DAY_FORMAT")
    }


def _measure_allowance(allowance: Allowance, person: Member, today: date) -> AllowanceUse:
    used = UsageOfDay.objects.filter(day__gte=today.replace(day=1), day__lte=today)
    if allowance.is_shared and allowance.group_id is not None:
        used = used.filter(person__groups=allowance.group_id)
    else:
        used = used.filter(person=person)
    tokens = used.aggregate(tokens=Sum(F("input_tokens") + F("output_tokens")))["tokens"]
    cost = used.filter(currency=allowance.currency).aggregate(cost=Sum("cost"))["cost"]
    return AllowanceUse(allowance=allowance, tokens=tokens or 0, cost=cost or Decimal(0))
