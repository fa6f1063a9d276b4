"""The official conformance suite against the client of this project: one test a scenario, one after
another."""

import re
from pathlib import Path

import pytest

from tests.migrated import make_sqlite
from tests.peers.installing import Unavailable

from .scenarios import BY_VERSION, IN_BOTH_REVISIONS
from .suite import HANDSHAKE, MODERN, ROOT, run, scenarios

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

NEWEST = "0.2.0-alpha.12"
ALL = [(version, name) for version, names in BY_VERSION.items() for name in names]
# Rows of the document: what need not pass, in which version of the suite.
EXCUSED = {
    (version, name)
    for name, version in re.findall(
        r"^\| `(\S+)` \| (\S+) \| \S.* \|$",
        (ROOT / "docs/conformance.md").read_text(),
        re.MULTILINE,
    )
}
MUST_PASS = [pair for pair in ALL if pair not in EXCUSED]


@pytest.fixture(autouse=True, scope="module")
def _suite() -> None:
    """Install what is missing before the first test, so that no test times out."""
    try:
        for version in BY_VERSION:
            scenarios(version)
    except Unavailable as error:
        pytest.skip(f"The conformance suite cannot be had: {error}")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a new installation; each scenario gets a copy."""
    path = tmp_path_factory.mktemp("conformance") / "new.sqlite3"
    make_sqlite(path)
    return path


@pytest.mark.parametrize("version", BY_VERSION)
def test_every_scenario_that_the_suite_names_is_run(version: str) -> None:
    assert sorted(scenarios(version)) == sorted(BY_VERSION[version])


def test_every_scenario_that_is_excused_exists() -> None:
    assert set(ALL) >= EXCUSED
    assert 0 < len(EXCUSED) <= 10


@pytest.mark.parametrize(("version", "scenario"), MUST_PASS)
def test_our_client_passes(version: str, scenario: str, database: Path, tmp_path: Path) -> None:
    verdict = run(version, scenario, database, tmp_path)

    assert verdict.has_passed, verdict.told


@pytest.mark.parametrize("scenario", IN_BOTH_REVISIONS)
def test_our_client_passes_in_the_handshake_era(
    scenario: str, database: Path, tmp_path: Path
) -> None:
    verdict = run(NEWEST, scenario, database, tmp_path, HANDSHAKE)

    assert verdict.has_passed, verdict.told


def test_every_scenario_of_both_revisions_is_run_in_both() -> None:
    listed = scenarios(NEWEST).items()
    assert sorted(IN_BOTH_REVISIONS) == sorted(
        name for name, revisions in listed if {HANDSHAKE, MODERN} <= set(revisions)
    )


@pytest.mark.parametrize(("version", "scenario"), sorted(EXCUSED))
def test_what_is_excused_does_not_pass_unnoticed(
    version: str, scenario: str, database: Path, tmp_path: Path
) -> None:
    verdict = run(version, scenario, database, tmp_path)

    assert not verdict.has_passed, f"{scenario} passes now: take it out of docs/conformance.md"
