"""What could go wrong, told from the evidence for a risk."""

from collections.abc import Mapping

import pytest

from chatapp.permissions import reasons
from chatapp.permissions.consequences import list_consequences
from chatapp.permissions.risk_evidence import make_finding
from chatapp.permissions.risk_vocabulary import EFFECTS, Effect

SOURCES = (reasons.NAME_SAYS, reasons.DESCRIPTION_SAYS, reasons.ACTIONS_SAY)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("source", SOURCES)
def test_each_effect_that_raises_a_risk_has_a_consequence(
    effect: Effect, source: Mapping[Effect, str]
) -> None:
    reason = make_finding(effect, source=source).reason
    [told] = list_consequences([reason], "")
    assert told not in list_consequences([], ""), "It is more than what the level says."


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (reasons.TAKES_SQL, "executed"),
        (reasons.SENDS_ANY_REQUEST, "any address"),
        (reasons.NAME_SAYS_NOTHING, "service itself"),
        (reasons.NAME_IN_UNKNOWN_SCRIPT, "service itself"),
        (reasons.ARGUMENT_DELETES, "permanently"),
        (reasons.TAINTED % {"service": "web"}, "not you"),
    ],
)
def test_other_evidence_has_its_own(reason: str, word: str) -> None:
    [told] = list_consequences([reason], "medium")
    assert word in told


def test_the_same_consequence_is_told_once() -> None:
    found = [make_finding("deletes", source=source).reason for source in SOURCES]
    assert len(list_consequences(found, "high")) == 1


@pytest.mark.parametrize(("level", "word"), [("low", "reads"), ("medium", "change")])
def test_without_evidence_the_level_speaks(level: str, word: str) -> None:
    [told] = list_consequences(["Its name says that it deletes."], level)
    assert word in told, "A reason of an older version has no consequence of its own."


def test_a_level_that_nobody_knows_is_a_high_one() -> None:
    assert list_consequences([], "purple") == list_consequences([], "high")
