"""Defences taken away, one at a time: without it, the same abuse must run something."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from django.contrib.auth import middleware
from django.db import transaction
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from chatapp.management.commands import approvals as approvals_command
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.permissions import binding, decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision, House
from chatapp.rendering import call_values, changing, markdown, results, visible
from chatapp.tools import catalogue
from chatapp.turns import answers, ledger, policy, relisting
from chatapp.turns.calling import wake
from chatapp.turns.ending import signal
from chatapp.views import approvals
from chatapp.views.access import MemberRequest
from mcpconfig.acting import Acting
from mcpconfig.models import Service, ToolDefinition, ToolSetting

Monkey = pytest.MonkeyPatch


def anybodys_call(monkeypatch: Monkey) -> None:
    """Whoever names a call may answer it, as if it were theirs."""

    def found(person: Member, call_id: Any) -> ToolCall:
        return ToolCall.objects.get(pk=call_id)

    for module in (approvals, approvals_command):
        monkeypatch.setattr(module, "call_for", found)
    monkeypatch.setattr(answers, "_is_requester", lambda *_: True)


def anybody_is_the_owner(monkeypatch: Monkey) -> None:
    """Sessions are not looked at, and who the person is does not count when it runs."""
    monkeypatch.setattr(middleware, "get_user", lambda _: Member.objects.get(username="owner"))
    nothing_checked_again(monkeypatch)


def nothing_checked_again(monkeypatch: Monkey) -> None:
    """Neither the rows of a call nor policy are looked at again before it is sent."""
    monkeypatch.setattr(ledger, "passes", lambda *_: True)


def old_lists_do(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(relisting, "_grown_old", lambda _: [])


def a_decision_without_conditions(monkeypatch: Monkey) -> None:
    def decided(
        call: ToolCall, by: Member, shown: str, decision: str, state: str, *_: object
    ) -> None:
        with transaction.atomic():
            signal(call.turn_id)
            Approval.objects.filter(tool_call=call).update(state=decision, decided_by=by)
            ToolCall.objects.filter(pk=call.pk).update(state=state)
            ended = Turn.objects.filter(pk=call.turn_id).exclude(state__in=Turn.LIVE)
            ended.update(state=Turn.State.QUEUED)
            transaction.on_commit(lambda: wake(call.turn_id))

    monkeypatch.setattr(answers, "_decide", decided)
    monkeypatch.setattr(answers, "_hold_open", lambda *_: None)


def hidden_stays_hidden(monkeypatch: Monkey) -> None:
    """Escaped, but not drawn."""
    monkeypatch.setattr(visible, "_HIDDEN", re.compile("(?!)"))
    no_cautions(monkeypatch)


def markup_is_kept(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(markdown, "_render", lambda text: text)


def results_are_markup(monkeypatch: Monkey) -> None:
    def raw(text: str) -> SafeString:
        return mark_safe(text)  # noqa: S308  the planted fault

    monkeypatch.setattr(results, "draw_hidden", raw)


def the_last_value_counts(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(binding, "_object", dict)


def no_doubts(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(decide, "_doubts", lambda *_: iter(()))


def whatever_asks_runs(monkeypatch: Monkey) -> None:
    def allowed(reason: str) -> Decision:
        return Decision(effect="allow", reason=reason)

    monkeypatch.setattr(decide, "_ask", allowed)


def any_consent_holds(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(decide, "_consents", lambda *_: True)


def high_risks_are_as_others(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(policy, "house_of", lambda _: House(consents_to_high=True))
    monkeypatch.setattr(decide, "_consents", lambda *_: True)


def services_rate_themselves(monkeypatch: Monkey) -> None:
    def rated(service: Service, definition: ToolDefinition, setting: ToolSetting | None) -> Risk:
        reads = (definition.annotations or {}).get("readOnlyHint")
        return Risk(level="low" if reads else "high", reasons=())

    monkeypatch.setattr(catalogue, "risk_of", rated)
    monkeypatch.setattr(policy, "risk_of", rated)


def names_that_collide(monkeypatch: Monkey) -> None:
    """Names without a hash, and of two tools of one name the last one counts."""

    def flat(service: str, tool: str) -> str:
        return re.sub(r"\W", "_", f"{service}_{tool}").lower()[:60]

    def last(
        shelves: Iterable[Sequence[catalogue.CatalogueTool]],
    ) -> tuple[dict[str, catalogue.CatalogueTool], list[str]]:
        return {tool.tool_id: tool for shelf in shelves for tool in shelf}, []

    monkeypatch.setattr(catalogue, "tool_id", flat)
    monkeypatch.setattr(catalogue, "_by_id", last)


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

    monkeypatch.setattr(approvals, "_arguments", typed)


def no_cautions(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(call_values, "cautions_of", lambda _: [])


def cut(monkeypatch: Monkey) -> None:
    """Long values end without a word about it."""
    monkeypatch.setattr(visible, "escape", lambda text: escape(text[:400]))
    monkeypatch.setattr(changing, "form_of", lambda *_: None)


def everything_runs_together(monkeypatch: Monkey) -> None:
    monkeypatch.setattr(Approval, "may_be_batched", True)
