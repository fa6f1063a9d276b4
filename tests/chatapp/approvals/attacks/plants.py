"""Defences taken away, one at a time: without it, the same abuse must run something."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from django.contrib.auth import middleware
from django.db import transaction
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from chatapp.approvals import decisions
from chatapp.calls import ledger, recheck
from chatapp.journal.journal import signal_turn, wake
from chatapp.management.commands import approvals as approvals_command
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.permissions import binding, decide, destinations
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision, House
from chatapp.policy import stored_policy
from chatapp.rendering import call_values, hidden_characters, results
from chatapp.rendering.cards import approval_card
from chatapp.rendering.markdown import stream
from chatapp.tools import catalogue
from chatapp.views.access import MemberRequest
from chatapp.views.approvals import decisions as decision_views
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.acting import Acting

Monkey = pytest.MonkeyPatch


def anybodys_call(monkeypatch: Monkey) -> None:
    """Whoever names a call may answer it, as if it were theirs."""

    def found(person: Member, call_id: Any) -> ToolCall:
        return ToolCall.objects.get(pk=call_id)

    for module in (decision_views, approvals_command):
        monkeypatch.setattr(module, "get_call", found)
    monkeypatch.setattr(decisions, "_is_requester", lambda *_: True)


def anybody_is_the_owner(monkeypatch: Monkey) -> None:
    """Sessions are not looked at, and who the person is does not count when it runs."""
    monkeypatch.setattr(middleware, "get_user", lambda _: Member.objects.get(username="owner"))
    nothing_checked_again(monkeypatch)


def nothing_checked_again(monkeypatch: Monkey) -> None:
    """Neither the rows of a call nor policy are looked at again before it is sent."""
    monkeypatch.setattr(ledger, "may_run", lambda *_: True)
    monkeypatch.setattr(ledger, "compute_current_binding", lambda call, _: call.binding)


def old_lists_do(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(recheck, "_find_services_with_old_lists", lambda _: [])


def a_decision_without_conditions(monkeypatch: Monkey) -> None:
    def decided(
        call: ToolCall, by: Member, shown: str, decision: str, state: str, *_: object
    ) -> None:
        with transaction.atomic():
            signal_turn(call.turn_id)
            Approval.objects.filter(tool_call=call).update(state=decision, decided_by=by)
            ToolCall.objects.filter(pk=call.pk).update(state=state)
            ended = Turn.objects.filter(pk=call.turn_id).exclude(state__in=Turn.LIVE)
            ended.update(state=Turn.State.QUEUED)
            transaction.on_commit(lambda: wake(call.turn_id))

    monkeypatch.setattr(decisions, "_decide", decided)
    monkeypatch.setattr(decisions, "_lock_open", lambda *_: None)


def hidden_stays_hidden(monkeypatch: Monkey) -> None:
    """Escaped, but not drawn."""
    monkeypatch.setattr(hidden_characters, "_HIDDEN", re.compile("(?!)"))
    no_cautions(monkeypatch)


def markup_is_kept(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(stream, "_render_uncached", lambda text: text)


def results_are_markup(monkeypatch: Monkey) -> None:
    def raw(text: str) -> SafeString:
        return mark_safe(text)  # noqa: S308  the planted fault

    monkeypatch.setattr(results, "draw_hidden", raw)


def the_last_value_counts(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(binding, "_build_object", dict)


def no_doubts(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(decide, "_ask_in_doubt", lambda *_: iter(()))


def whatever_asks_runs(monkeypatch: Monkey) -> None:
    def allowed(reason: str) -> Decision:
        return Decision(effect="allow", reason=reason)

    monkeypatch.setattr(decide, "_ask", allowed)


def destinations_do_not_count(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(decide, "_ask_about_destinations", lambda *_: iter(()))


def every_host_is_allowed(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(destinations, "is_allowed", lambda *_: True)


def any_consent_holds(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(decide, "_covers_call", lambda *_: True)


def high_risks_are_as_others(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(stored_policy, "build_house", lambda _: House(consents_to_high=True))
    monkeypatch.setattr(decide, "_covers_call", lambda *_: True)


def services_rate_themselves(monkeypatch: Monkey) -> None:
    def rated(service: Service, definition: ToolDefinition, setting: ToolSetting | None) -> Risk:
        reads = (definition.annotations or {}).get("readOnlyHint")
        return Risk(level="low" if reads else "high", reasons=())

    monkeypatch.setattr(catalogue, "assess_risk", rated)
    monkeypatch.setattr(stored_policy, "assess_risk", rated)


def names_that_collide(monkeypatch: Monkey) -> None:
    """Names without a hash, and of two tools of one name the last one counts."""

    def flat(service: str, tool: str) -> str:
        return re.sub(r"\W", "_", f"{service}_{tool}").lower()[:60]

    def last(
        shelves: Iterable[Sequence[catalogue.CatalogueTool]],
    ) -> tuple[dict[str, catalogue.CatalogueTool], list[str]]:
        return {tool.tool_id: tool for shelf in shelves for tool in shelf}, []

    monkeypatch.setattr(catalogue, "tool_id", flat)
    monkeypatch.setattr(catalogue, "_index_by_id", last)


def everybody_acts_as_the_first(monkeypatch: Monkey) -> None:
    """What is known of the person is kept from one call to the next."""
    monkeypatch.setattr(ledger, "Acting", FirstPerson())


class FirstPerson:
    def __init__(self) -> None:
        self.kept: Acting | None = None

    def of(self, person: Member, conversation_id: object = "") -> Acting:
        self.kept = self.kept or Acting.of(person, conversation_id)
        return self.kept


def fields_of_the_browser_count(monkeypatch: Monkey) -> None:
    def typed(request: MemberRequest, *_: object) -> str | None:
        return request.POST.get("exact")

    monkeypatch.setattr(decision_views, "_read_arguments", typed)


def no_cautions(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(call_values, "list_cautions", lambda _: [])


def cut(monkeypatch: Monkey) -> None:
    """Long values end without a word about it."""
    monkeypatch.setattr(hidden_characters, "escape", lambda text: escape(text[:400]))
    monkeypatch.setattr(approval_card, "build_edit_form", lambda *_: None)


def everything_runs_together(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(Approval, "may_be_batched", True)
