"""What could go wrong, told from the evidence for a risk."""

import pytest

from chatapp.permissions.consequences import consequences_of
from chatapp.permissions.findings import PHRASES, found


@pytest.mark.parametrize("effect", list(PHRASES))
@pytest.mark.parametrize("source", ["Its name", "Its description"])
def test_each_effect_that_raises_a_risk_has_a_consequence(effect: str, source: str) -> None:
    reason = found(effect, source=source).reason  # type: ignore[arg-type]
    [told] = consequences_of([reason], "")
    assert told not in consequences_of([], ""), "It is more than what the level says."


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("It takes free SQL.", "carried out"),
        ("It can send any request to an address.", "any address"),
        ("Nothing in its name says what it does.", "own words"),
        ("A result of “web”, which strangers may have written, came before it.", "stranger"),
    ],
)
def test_other_evidence_has_its_own(reason: str, word: str) -> None:
    [told] = consequences_of([reason], "medium")
    assert word in told


def test_the_same_consequence_is_told_once() -> None:
    reasons = [found("deletes", source=source).reason for source in ("Its name", "Its description")]
    assert len(consequences_of(reasons, "high")) == 1


@pytest.mark.parametrize(("level", "word"), [("low", "reads"), ("medium", "change")])
def test_without_evidence_the_level_speaks(level: str, word: str) -> None:
    [told] = consequences_of(["Nobody knows why."], level)
    assert word in told


def test_a_level_that_nobody_knows_is_a_high_one() -> None:
    assert consequences_of([], "purple") == consequences_of([], "high")
