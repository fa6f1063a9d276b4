"""The charts of the overview. Each is counted in one statement, per day or per person."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Count, F, FilteredRelation, Q, Sum
from django.db.models.functions import TruncDate, TruncHour
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.models import Approval, Member, ToolCall, Turn, UsageOfDay
from chatapp.server.locales import get_locale
from chatapp.server.runtime import current_runtime

from .plots import Plot, Series, draw_line, draw_rows, draw_stacks

DAYS = 14
QUESTION_DAYS = 7
HOURS = 24
PEOPLE = 5
KEPT_SECONDS = 30
# What decides which charts there are, and where their links lead.
SHOWN_BY = (
    "chatapp.view_toolcall",
    "chatapp.view_approval",
    "chatapp.view_usageofday",
    "chatapp.view_turn",
    "chatapp.view_policyrule",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with its text: `figure` is the number above it, `about` says what that is, and
    `summary` is the text alternative. `head` and `rows` are the table."""

    name: str
    title: str
    figure: str
    about: str
    summary: str
    plot: Plot
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    address: str
    link: str
    has_legend: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether all its numbers are 0."""
        cells = (cell for row in self.rows for cell in row[1:])
        return not any(digit in cell for cell in cells for digit in "123456789")


def list_charts(admin: Member) -> Sequence[Chart]:
    """Return the charts of what this admin may view. They read tens of thousands of rows, so a
    process keeps them for up to half a minute, for each language, time zone and set of rights."""
    cache, moment = current_runtime().overview_charts, int(time.monotonic() / KEPT_SECONDS)
    key = (get_locale(), *(admin.has_perm(permission) for permission in SHOWN_BY))
    charts = cache.get(key, moment)
    if charts is None:
        charts = _draw_charts(admin)
        cache.put(key, moment, charts)
    return charts


def _draw_charts(admin: Member) -> list[Chart]:
    charts = []
    if admin.has_perm("chatapp.view_toolcall"):
        charts.append(_draw_calls())
    if admin.has_perm("chatapp.view_approval"):
        charts.append(_draw_questions(admin))
    if admin.has_perm("chatapp.view_usageofday"):
        charts.append(_draw_cost())
    if admin.has_perm("chatapp.view_turn"):
        charts.append(_draw_turns())
    return charts


# --- calls and decisions -----------------------------------------------------------------------
def _draw_calls() -> Chart:
    days = _list_days(timezone.localdate())
    since = timezone.make_aware(datetime.combine(days[0], datetime.min.time()))
    decided = ToolCall.objects.filter(turn__created_at__gte=since).exclude(risk="").order_by()
    counted = (
        # No approval is older than the turn of its call, and with its time an index finds it.
        decided.annotate(
            day=TruncDate("turn__created_at"),
            question=FilteredRelation("approval", condition=Q(approval__created_at__gte=since)),
        )
        .values("day")
        .annotate(
            total=Count("pk"),
            asked=Count("question"),
            refused=Count("pk", filter=Q(state=ToolCall.State.REFUSED, question=None)),
        )
    )
    found = {row["day"]: (row["total"], row["asked"], row["refused"]) for row in counted}
    total, asked, refused = zip(*(found.get(day, (0, 0, 0)) for day in days), strict=True)
    ran = [every - some - few for every, some, few in zip(total, asked, refused, strict=True)]
    names = [_write_day(day) for day in days]
    plot = draw_stacks(
        names,
        [
            Series(role="ran", numbers=ran),
            Series(role="asked", numbers=asked),
            Series(role="refused", numbers=refused),
        ],
        _write_short,
    )
    whole = sum(total)
    about = ngettext("call in %(days)s days", "calls in %(days)s days", whole) % {"days": DAYS}
    if whole:
        about = _("%(calls)s · %(percent)s %% needed approval") % {
            "calls": about,
            "percent": round(100 * sum(asked) / whole),
        }
    summary = _(
        "Calls a day from %(first)s to %(last)s. %(ran)s ran without asking, %(asked)s needed "
        "approval, %(refused)s were refused by policy. Most on one day: %(most)s."
    ) % {
        "first": names[0],
        "last": names[-1],
        "ran": intcomma(sum(ran)),
        "asked": intcomma(sum(asked)),
        "refused": intcomma(sum(refused)),
        "most": intcomma(max(total)),
    }
    return Chart(
        name="calls",
        title=_("Calls and decisions a day"),
        figure=intcomma(whole),
        about=about,
        summary=summary,
        plot=plot,
        head=[_("Day"), _("Ran without asking"), _("Asked"), _("Refused by policy")],
        rows=_build_rows(names, ran, asked, refused),
        address=reverse("admin:chatapp_toolcall_changelist"),
        link=_("View tool calls"),
        has_legend=True,
    )


# --- questions ---------------------------------------------------------------------------------
def _draw_questions(admin: Member) -> Chart:
    since = timezone.now() - timedelta(days=QUESTION_DAYS)
    owner = "tool_call__turn__conversation__owner__username"
    asked = Approval.objects.filter(created_at__gte=since).order_by()
    counted = asked.values_list(owner).annotate(number=Count("pk"))
    people = sorted(counted, key=lambda row: (-row[1], row[0]))
    shown, others = people[:PEOPLE], people[PEOPLE:]
    rows = [(str(name), float(number)) for name, number in shown]
    if others:
        text = ngettext("%(count)s other", "%(count)s others", len(others))
        rows.append((text % {"count": len(others)}, float(sum(number for _n, number in others))))
    whole = sum(number for _name, number in people)
    about = ngettext("question in %(days)s days", "questions in %(days)s days", whole)
    listed = ", ".join(f"{name} {intcomma(int(number))}" for name, number in rows)
    summary = _("Questions in the last %(days)s days. %(people)s.")
    address = reverse("admin:chatapp_approval_changelist")
    link = _("View approvals")
    if admin.has_perm("chatapp.view_policyrule"):
        address, link = reverse("admin:policy_questions"), _("See who is asked, and how often")
    return Chart(
        name="questions",
        title=_("Questions per person"),
        figure=intcomma(whole),
        about=about % {"days": QUESTION_DAYS},
        summary=summary % {"days": QUESTION_DAYS, "people": listed or _("None")},
        plot=draw_rows(rows, _write_short),
        head=[_("Member"), _("Questions")],
        rows=[[name, intcomma(int(number))] for name, number in rows],
        address=address,
        link=link,
    )


# --- cost --------------------------------------------------------------------------------------
def _draw_cost() -> Chart:
    """Draw what the models cost per day, in the currency with most usage, or the tokens if no
    model has a price."""
    days = _list_days(timezone.now().date())
    used = UsageOfDay.objects.filter(day__gte=min(days[0], days[-1].replace(day=1))).order_by()
    rows = used.values_list("day", "currency").annotate(
        spent=Sum("cost"), tokens=Sum(F("input_tokens") + F("output_tokens"))
    )
    spent: dict[str, dict[date, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    tokens: dict[date, int] = defaultdict(int)
    for day, currency, cost, count in rows:
        tokens[day] += count
        if currency:
            spent[currency][day] += cost
    names = [_write_day(day) for day in days]
    address, link = reverse("admin:chatapp_usageofday_changelist"), _("View usage")
    if not spent:
        numbers: list[float] = [float(tokens[day]) for day in days]
        whole = intcomma(int(sum(numbers)))
        return Chart(
            name="cost",
            title=_("Tokens a day"),
            figure=whole,
            about=_("tokens in %(days)s days") % {"days": DAYS},
            summary=_("Tokens a day from %(first)s to %(last)s, %(total)s in all.")
            % {"first": names[0], "last": names[-1], "total": whole},
            plot=draw_line(names, numbers, _write_short),
            head=[_("Day"), _("Tokens")],
            rows=_build_rows(names, [tokens[day] for day in days]),
            address=address,
            link=link,
        )
    currency = max(spent, key=lambda each: sum(spent[each].values()))
    costs = spent[currency]
    amounts = [float(costs[day]) for day in days]
    month = sum((cost for day, cost in costs.items() if day >= days[-1].replace(day=1)), Decimal(0))
    values = {"month": f"{number_format(month, 2)} {currency}", "days": DAYS}
    return Chart(
        name="cost",
        title=_("Cost a day"),
        figure=f"{number_format(sum(amounts), 2)} {currency}",
        about=_("in %(days)s days · %(month)s this month") % values,
        summary=_("Cost a day from %(first)s to %(last)s. %(month)s this month.")
        % {**values, "first": names[0], "last": names[-1]},
        plot=draw_line(names, amounts, _write_short),
        head=[_("Day"), _("Cost")],
        rows=[
            [name, f"{number_format(amount, 2)} {currency}"]
            for name, amount in zip(names, amounts, strict=True)
        ],
        address=address,
        link=link,
    )


# --- turns -------------------------------------------------------------------------------------
def _draw_turns() -> Chart:
    now = timezone.localtime().replace(minute=0, second=0, microsecond=0)
    hours = [now - timedelta(hours=HOURS - 1 - index) for index in range(HOURS)]
    started = Turn.objects.filter(created_at__gte=hours[0]).order_by()
    counted = started.annotate(hour=TruncHour("created_at")).values_list("hour")
    found = dict(counted.annotate(number=Count("pk")))
    numbers = [found.get(hour, 0) for hour in hours]
    names = [date_format(hour, "H:i") for hour in hours]
    whole = sum(numbers)
    about = ngettext("turn in %(hours)s hours", "turns in %(hours)s hours", whole)
    return Chart(
        name="turns",
        title=_("Turns an hour"),
        figure=intcomma(whole),
        about=about % {"hours": HOURS},
        summary=_("Turns started an hour since %(first)s. Most in one hour: %(most)s.")
        % {"first": names[0], "most": intcomma(max(numbers))},
        plot=draw_line(names, [float(number) for number in numbers], _write_short),
        head=[_("Hour"), _("Turns")],
        rows=_build_rows(names, numbers),
        address=reverse("admin:chatapp_turn_changelist"),
        link=_("View turns"),
    )


def _list_days(today: date) -> list[date]:
    return [today - timedelta(days=DAYS - 1 - index) for index in range(DAYS)]


def _write_day(day: date) -> str:
    return date_format(day, "j M")


def _write_short(number: float) -> str:
    """Return the number for an axis: 1500 is 1.5k."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{intcomma(round(number / size, 1)).removesuffix('.0')}{letter}"
    return intcomma(round(number, 2) if number % 1 else int(number))


def _build_rows(names: Sequence[str], *columns: Sequence[int]) -> list[list[str]]:
    return [
        [name, *(intcomma(column[index]) for column in columns)] for index, name in enumerate(names)
    ]
