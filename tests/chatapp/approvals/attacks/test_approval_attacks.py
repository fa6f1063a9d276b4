"""The attacks on approvals, A14 to A16, A22, A23, A27 to A37 and A76 of the threat list: none runs
anything, and each does as soon as the one defence against it is taken away."""

import re
from pathlib import Path

import pytest

from . import changes, people, policies, races, words
from .world import Attack, World

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]
ATTACKS = (
    *people.ATTACKS,
    *words.ATTACKS,
    *changes.ATTACKS,
    *policies.ATTACKS,
    *races.ATTACKS,
)
THREATS = {"A14", "A15", "A16", "A22", "A23", *(f"A{n}" for n in range(27, 38)), "A76"}
each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=str)


@each_attack
async def test_it_runs_nothing(world: World, attack: Attack) -> None:
    await attack.abuse(world)
    assert world.harm == 0


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
