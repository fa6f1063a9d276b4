"""Second opinions on tools in the admin: what stands beside our own reasons, and the acts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.admin.badges import render_badge
from chatapp.admin.policy.tested_saves import SaveRefused, save_with_tests, warn_about_failing
from chatapp.background.jobs import ask_for_opinions
from chatapp.models import HousePolicy, SecondOpinion
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.simulation import second_opinions
from chatapp.views.access import MemberRequest
from mcpconfig.models import ToolDefinition

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

State = SecondOpinion.State
MOST_ASKED_AT_ONCE = 50
ASK, SET_ASIDE = "ask_opinion", "set_opinion_aside"
ACTS = (ASK, SET_ASIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOpinion:
    """The second opinion on one definition as a page shows it."""

    model: str = ""
    state: str = ""
    level: SafeString | str = ""
    reasons: tuple[SafeString, ...] = ()
    problem: "StrOrPromise" = ""
    asked_by: str = ""
    may_ask: bool = True

    @property
    def is_given(self) -> bool:
        return self.state == State.GIVEN

    @property
    def is_asked(self) -> bool:
        return self.state == State.ASKED


def has_model() -> bool:
    """Whether the policy names a model that can be asked."""
    return bool(HousePolicy.current().opinion_model)


def judges_each_new() -> bool:
    """Whether a model is asked about each new definition."""
    house = HousePolicy.current()
    return bool(house.opinions_for_new and house.opinion_model)


def load_opinions(definitions: Collection[ToolDefinition]) -> dict[int, ToolOpinion]:
    """Return the opinions on these definitions by their ids, in one statement."""
    rows = SecondOpinion.objects.filter(definition__in=definitions).select_related("asked_by")
    return {row.definition_id: _build_opinion(row) for row in rows}


def _build_opinion(row: SecondOpinion) -> ToolOpinion:
    problem = second_opinions.ERRORS.get(row.error, "")
    if row.error_text:
        problem = f"{problem} {row.error_text}"
    may_ask = second_opinions.may_ask(row)
    if may_ask and row.state == State.ASKED:
        problem = _("There is no answer yet.")
    return ToolOpinion(
        model=row.model,
        state=row.state,
        level=render_badge(row.level) if row.level else "",
        reasons=tuple(draw_hidden(str(reason)) for reason in row.reasons),
        problem=problem,
        asked_by=row.asked_by.display_name if row.asked_by else "",
        may_ask=may_ask,
    )


def read_act(request: HttpRequest) -> tuple[str, set[str]] | None:
    """Return the act of a button beside one tool with its hash, or None."""
    for act in ACTS:
        if chosen := request.POST.get(f"{act}_of", ""):
            return act, {chosen}
    return None


def act_on_opinions(
    request: MemberRequest, definitions: Iterable[ToolDefinition], act: str
) -> None:
    """Ask for opinions on these definitions, or set theirs aside, and say what was done."""
    chosen = list(definitions)
    if act == ASK:
        _ask(request, chosen)
    else:
        _set_aside(request, chosen)


def _ask(request: MemberRequest, chosen: list[ToolDefinition]) -> None:
    model = HousePolicy.current().opinion_model
    if not model:
        messages.warning(request, second_opinions.ERRORS["no_model"])
        return
    if len(chosen) > MOST_ASKED_AT_ONCE:
        text = _("Select at most %(count)s tools. Nothing was asked.")
        messages.warning(request, text % {"count": MOST_ASKED_AT_ONCE})
        return
    with transaction.atomic():
        asked = second_opinions.ask(chosen, request.user)
        ask_for_opinions(asked)
    if not asked:
        text = _(
            "Nothing was asked: there is an opinion on these tools already. Set it aside to ask "
            "again."
        )
        messages.warning(request, text)
        return
    text = ngettext(
        "Asked %(model)s for an opinion on %(count)s tool. Reload this page in a moment.",
        "Asked %(model)s for an opinion on %(count)s tools. Reload this page in a moment.",
        len(asked),
    )
    messages.success(request, text % {"model": model, "count": len(asked)})


def _set_aside(request: MemberRequest, chosen: list[ToolDefinition]) -> None:
    """Set opinions aside unless a policy test newly fails: a tool may have a lower risk then."""
    try:
        count, failing = save_with_tests(partial(second_opinions.set_aside, chosen, request.user))
    except SaveRefused as refused:
        messages.error(request, " ".join(refused.sentences))
        return
    warn_about_failing(request, failing)
    if not count:
        messages.warning(request, _("These tools have no opinion. Nothing was changed."))
        return
    text = ngettext(
        "%(count)s opinion set aside. It no longer counts.",
        "%(count)s opinions set aside. They no longer count.",
        count,
    )
    messages.success(request, text % {"count": count})
