"""The attacks on approvals, by the names of the threats in docs/threats.md: none runs
anything, and each does as soon as the one defence against it is taken away."""

import re
from pathlib import Path

import pytest

from . import changes, destinations, people, policies, races, words
from .world import Attack, World

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
ATTACKS = (
    *people.ATTACKS,
    *words.ATTACKS,
    *changes.ATTACKS,
    *policies.ATTACKS,
    *destinations.ATTACKS,
    *races.ATTACKS,
)
THREATS = {
    "approval-by-another-person",
    "approval-replayed",
    "arguments-changed-after-display",
    "arguments-hidden-by-length",
    "data-sent-out-by-a-reading-tool",
    "foreign-markup-in-card",
    "hidden-characters",
    "high-risk-hidden-in-batch",
    "identity-mixed-up-in-parallel",
    "look-alike-name",
    "markup-that-approves",
    "misleading-tool-description",
    "missing-or-broken-rating",
    "policy-changed-before-run",
    "revoked-right-by-another-entrance",
    "stale-approval",
    "tabs-disagree",
    "tool-changed-after-approval",
    "tool-name-collision",
}
each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=str)


@each_attack
async def test_it_runs_nothing(world: World, attack: Attack) -> None:
    await attack.abuse(world)
    assert world.harm == 0


@pytest.mark.long
@each_attack
async def test_without_the_defence_it_runs(
    world: World, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack.plant(monkeypatch)
    await attack.abuse(world)
    assert world.harm > 0


def test_every_threat_is_there_and_the_document_says_how_many() -> None:
    assert {attack.threat for attack in ATTACKS} == THREATS
    document = Path(__file__).parents[4] / "docs/reliability.md"
    told = re.search(r"(\d+) of (\d+) attacks on approvals run nothing", document.read_text())
    assert told is not None
    assert told.groups() == (str(len(ATTACKS)), str(len(ATTACKS)))
