"""The official conformance suite against the MCP server of this project: one test a scenario, one
after another."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.flows.server import eventually, free_port
from tests.migrated import make_sqlite
from tests.peers.installing import Unavailable

from .suite import ROOT, VERSIONS, run_against, scenarios

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

IN_BOTH = (
    *("server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error"),
    *("tools-call-with-progress", "dns-rebinding-protection"),
)
IN_THE_LATER = (
    *("server-sse-multiple-streams", "http-header-validation"),
    *("input-required-result-unsupported-methods", "input-required-result-validate-input"),
)
PASSES = [
    *(("0.1.16", name) for name in IN_BOTH),
    *(("0.2.0-alpha.12", name) for name in (*IN_BOTH, *IN_THE_LATER)),
]
# Rows of the document: names, or patterns of names, and why these need not pass.
EXCUSED = re.findall(
    r"^\| `([\w*-]+)` \| [^|]+ \|$", (ROOT / "docs/conformance.md").read_text(), re.MULTILINE
)


@pytest.fixture(autouse=True, scope="module")
def _suite() -> None:
    """Install what is missing before the first test, so that no test times out."""
    try:
        for version in VERSIONS:
            scenarios(version, "server")
    except Unavailable as error:
        pytest.skip(f"The conformance suite cannot be had: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """The MCP server in a process of its own."""

    address: str
    log: Path


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    """The MCP server, with a new database."""
    folder, port = tmp_path_factory.mktemp("face"), free_port()
    environment = {
        **os.environ,
        "DATABASE_URL": make_sqlite(folder / "face.sqlite3"),
        "DJANGO_SETTINGS_MODULE": "chatapp.settings",
        "LOG_LEVEL": "WARNING",
        "VAR_DIR": str(folder),
    }
    serve = [sys.executable, "-m", "tests.conformance.face", str(port)]
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(serve, cwd=ROOT, env=environment, stdout=file, stderr=file)
    eventually(lambda: _answers(port), f"The server does not answer. Its log is {log}.")
    yield Face(address=f"http://127.0.0.1:{port}/mcp", log=log)
    process.terminate()
    process.wait(30)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):  # noqa: S310
            return True
    except OSError:
        return False


@pytest.mark.parametrize("version", VERSIONS)
def test_every_scenario_is_run_or_excused_with_a_reason(version: str) -> None:
    for name in scenarios(version, "server"):
        is_excused = any(fnmatchcase(name, pattern) for pattern in EXCUSED)
        assert is_excused or (version, name) in PASSES, name


def test_every_excuse_is_for_a_scenario_that_is_not_run() -> None:
    not_run = {
        name
        for version in VERSIONS
        for name in scenarios(version, "server")
        if (version, name) not in PASSES
    }
    assert EXCUSED
    for pattern in EXCUSED:
        assert any(fnmatchcase(name, pattern) for name in not_run), pattern


@pytest.mark.parametrize(("version", "scenario"), PASSES)
def test_our_face_passes(version: str, scenario: str, face: Face, tmp_path: Path) -> None:
    verdict = run_against(version, scenario, face.address, tmp_path)

    assert verdict.has_passed, f"{verdict.told}\n{face.log.read_text()[-6000:]}"
