"""Two tabs, two workers, an admin and time act on one approval in any order: one decision, and
at most one execution for it and for each *Run again*."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from chatapp.approvals import decisions as answers
from chatapp.calls.deciding import compute_binding
from chatapp.calls.ledger import Sending, begin_sending, record_outcome, settle_orphans
from chatapp.conversations import intake
from chatapp.engine import sweep as recovery
from chatapp.engine.ending import park_turn
from chatapp.journal.lease import Lease, acquire
from chatapp.models import Approval, LogEntry, Member, PolicyRule, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.turns import rows
from tests.turns.thread_orders import Act, Order, at_once

from .attacks import plants

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
State = ToolCall.State
Kind = LogEntry.Kind
DECISIONS = (Kind.GRANTED, Kind.DENIED, Kind.EXPIRED, Kind.WITHDRAWN)
OTHER_VALUES = '{"name":"house"}'


@dataclass
class Story:
    """One call that waits, and what several actors do about it. `sent` are the attempts, with the
    arguments of each."""

    call: ToolCall
    chance: random.Random
    owner: Member
    decisions: list[str] = field(default_factory=list)
    sent: list[tuple[int, str]] = field(default_factory=list)
    agains: int = 0

    def acts(self) -> list[Act]:
        pick = self.chance.sample
        yes = self.chance.choice(["allow in this chat", "change", "run"])
        tabs = [
            partial(self._tab, names)
            for names in ([yes, *pick(sorted(TAB), 1)], pick(sorted(TAB), 2))
        ]
        workers = [partial(self._worker, self.chance.randrange(3)) for _ in range(2)]
        haps = self.chance.randrange(3)  # most of what may happen hinders the call
        return [*tabs, *workers, partial(self._world, pick(sorted(WORLD), haps))]

    # --- a tab ---------------------------------------------------------------------------------
    def _tab(self, names: list[str]) -> None:
        """What was shown is what the tab knows, however old it is by now."""
        shown = ToolCall.objects.select_related("approval", "turn__conversation").get(
            pk=self.call.pk
        )
        for name in names:
            try:
                TAB[name](self, shown)
            except Refused:
                continue

    def run(self, shown: ToolCall) -> None:
        self._grant(shown)
        self.decisions.append("run")

    def change(self, shown: ToolCall) -> None:
        self._grant(shown, arguments=OTHER_VALUES)
        self.decisions.append("change")

    def allow_in_chat(self, shown: ToolCall) -> None:
        self._grant(shown, scope="conversation")
        self.decisions.append("allow")

    def _grant(self, shown: ToolCall, **how: str) -> None:
        binding = shown.approval.binding
        answers.grant(shown, by=self.owner, binding=binding, shown_at=None, **how)

    def deny(self, shown: ToolCall) -> None:
        answers.deny(shown, by=self.owner, binding=shown.approval.binding)
        self.decisions.append("deny")

    def stop(self, shown: ToolCall) -> None:
        intake.stop(shown.turn.conversation)

    def again(self, shown: ToolCall) -> None:
        answers.resolve(shown, by=self.owner, verdict="again")
        self.agains += 1

    def worked(self, shown: ToolCall) -> None:
        answers.resolve(shown, by=self.owner, verdict="worked")

    # --- a worker --------------------------------------------------------------------------------
    def come_to_rest(self) -> None:
        """Another worker finds what is left to do."""
        self._worker(2)

    def acts_on_unknown(self) -> list[Act]:
        """Two tabs disagree about what became of it, while a worker looks."""
        tabs = [["again", "worked"], ["deny", "again"]]
        return [*(partial(self._tab, names) for names in tabs), partial(self._worker, 2)]

    def _worker(self, rounds: int) -> None:
        for _ in range(rounds + 1):
            lease = acquire(self.call.turn_id)
            if lease is None:
                continue
            settle_orphans(lease)
            sending = begin_sending(lease, self.call.pk)
            if sending is not None:
                self._send(lease, sending)
            park_turn(lease, Turn.objects.get(pk=lease.turn_id).signals)

    def _send(self, lease: Lease, sending: Sending) -> None:
        self.sent.append((sending.attempt, sending.arguments))
        outcome = self.chance.choice([State.SUCCEEDED, State.UNKNOWN, State.UNKNOWN])
        record_outcome(lease, sending, outcome)

    # --- the world -------------------------------------------------------------------------------
    def _world(self, names: list[str]) -> None:
        for name in names:
            WORLD[name](self)

    def time_runs_out(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        Approval.objects.filter(pk=self.call.pk).update(expires_at=past)

    def sweep(self) -> None:
        recovery.expire_approvals()

    def forbid(self) -> None:
        PolicyRule.objects.create(name="Never", effect="deny")

    def change_tool(self) -> None:
        ToolDefinition.objects.filter(name=self.call.tool_name).update(is_current=False)

    def switch_tool_off(self) -> None:
        ToolSetting.objects.filter(name=self.call.tool_name).update(is_enabled=False)

    # --- what must hold --------------------------------------------------------------------------
    def check(self) -> None:
        found = ToolCall.objects.select_related("approval").get(pk=self.call.pk)
        logged = LogEntry.objects.filter(call_id=found.pk, kind__in=DECISIONS).count()
        assert len(self.decisions) <= 1, f"Several decisions: {self.decisions}"
        assert logged <= 1, "Several decisions in the log"
        assert len(self.sent) <= 1 + self.agains, f"Sent too often: {self.sent}"
        assert len({attempt for attempt, _ in self.sent}) == len(self.sent)
        if self.sent:
            assert found.approval.state == Approval.State.GRANTED, "Sent without a yes"
            shown = OTHER_VALUES if self.decisions == ["change"] else ARGUMENTS
            assert {arguments for _, arguments in self.sent} == {shown}
        if found.approval.state != Approval.State.OPEN:
            assert found.state != State.AWAITING_APPROVAL, "A decision that no state shows"


TAB: dict[str, Callable[[Story, ToolCall], None]] = {
    "again": Story.again,
    "allow in this chat": Story.allow_in_chat,
    "change": Story.change,
    "deny": Story.deny,
    "run": Story.run,
    "run, pressed twice": Story.run,
    "stop": Story.stop,
    "worked": Story.worked,
}
WORLD: dict[str, Callable[[Story], None]] = {
    "change the tool": Story.change_tool,
    "forbid": Story.forbid,
    "sweep": Story.sweep,
    "switch the tool off": Story.switch_tool_off,
    "time runs out": Story.time_runs_out,
}
ARGUMENTS = '{"name":"lamp"}'


@pytest.fixture
def tool(owner: Member) -> ToolDefinition:
    service = Service.objects.create(
        name="things", url="https://things.example/mcp", visibility="everyone"
    )
    made = ToolDefinition.objects.create(
        service=service, hash="h", name="label_thing", input_schema={"type": "object"}
    )
    ToolSetting.objects.create(service=service, name="label_thing", confirmed_hash="h")
    return made


def told(owner: Member, tool: ToolDefinition, seed: int) -> Story:
    """A story from the beginning, in a world that earlier ones left no trace in."""
    PolicyRule.objects.all().delete()
    ToolDefinition.objects.update(is_current=True)
    ToolSetting.objects.update(is_enabled=True)
    place: dict[str, Any] = {
        "service": tool.service,
        "definition": tool,
        "tool_name": tool.name,
        "risk": "medium",
    }
    call = rows.question(rows.turn(owner), {"name": "lamp"}, **place)
    call.arguments = ARGUMENTS
    call.binding = compute_binding(call, tool.service_id, tool.service.endpoint, tool.hash, owner)
    call.save(update_fields=["arguments", "binding"])
    Approval.objects.filter(pk=call.pk).update(binding=call.binding)
    return Story(call=call, chance=random.Random(seed), owner=owner)  # noqa: S311  a test's order


def tell(owner: Member, tool: ToolDefinition, seed: int) -> Story:
    story = told(owner, tool, seed)
    for acts in (story.acts, story.acts_on_unknown):
        Order(story.chance).run(acts())
        story.come_to_rest()
        story.check()
    return story


@pytest.mark.parametrize(
    "seeds",
    [
        range(40),
        *(pytest.param(range(n, n + 160), marks=pytest.mark.long) for n in range(40, 1_000, 160)),
    ],
    ids=lambda seeds: f"orders {seeds.start} to {seeds.stop}",
)
def test_whatever_the_order_one_decision_counts(
    owner: Member, tool: ToolDefinition, seeds: range
) -> None:
    assert not current_runtime().wake_listeners  # nobody else moves these turns
    stories = [tell(owner, tool, seed) for seed in seeds]
    assert sum(bool(story.sent) for story in stories) > len(seeds) / 10
    assert sum("deny" in story.decisions for story in stories) > len(seeds) / 20
    assert sum(story.agains for story in stories) > 0


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(20)], ids=["20 stories"])
def test_at_the_same_moment_one_decision_counts(
    owner: Member, tool: ToolDefinition, seeds: range
) -> None:
    for seed in seeds:
        story = told(owner, tool, seed)
        for acts in (story.acts, story.acts_on_unknown):
            at_once(acts())
            story.come_to_rest()
            story.check()


def test_a_decision_without_conditions_is_noticed(
    owner: Member, tool: ToolDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    plants.a_decision_without_conditions(monkeypatch)
    with pytest.raises(AssertionError, match="Several decisions|Sent"):
        for seed in range(150):
            tell(owner, tool, seed)
