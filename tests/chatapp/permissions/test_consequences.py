"""What could go wrong, told from the evidence for a risk."""

import pytest

from chatapp.permissions.consequences import list_consequences
from chatapp.permissions.risk_evidence import PHRASES, make_finding


@pytest.mark.parametrize("effect", list(PHRASES))
@pytest.mark.parametrize("source", ["Its name", "Its description"])
def test_each_effect_that_raises_a_risk_has_a_consequence(effect: str, source: str) -> None:
    reason = make_finding(effect, source=source).reason  # type: ignore[arg-type]
    [told] = list_consequences([reason], "")
    assert told not in list_consequences([], ""), "It is more than what the level says."


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("It takes free SQL.", "carried out"),
        ("It can send any request to an address.", "any address"),
        ("Nothing in its name says what it does.", "own words"),
        ("Its name is in a script that is not known here.", "own words"),
        ("One of its values makes it delete something.", "for good"),
        ("A result of “web”, which strangers may have written, came before it.", "stranger"),
    ],
)
def test_other_evidence_has_its_own(reason: str, word: str) -> None:
    [told] = list_consequences([reason], "medium")
    assert word in told


def test_the_same_consequence_is_told_once() -> None:
    reasons = [
        make_finding("deletes", source=source).reason for source in ("Its name", "Its description")
    ]
    assert len(list_consequences(reasons, "high")) == 1


@pytest.mark.parametrize(("level", "word"), [("low", "reads"), ("medium", "change")])
def test_without_evidence_the_level_speaks(level: str, word: str) -> None:
    [told] = list_consequences(["Nobody knows why."], level)
    assert word in told


def test_a_level_that_nobody_knows_is_a_high_one() -> None:
    assert list_consequences([], "purple") == list_consequences([], "high")
