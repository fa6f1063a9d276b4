"""The official conformance suite: its scenarios, and a run of one of them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.peers.installing import PRELOAD, node, npm_package

ROOT = Path(__file__).resolve().parents[2]
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
# The one address of a client document that the suite knows.
PUBLIC_URL = "https://conformance-test.local"

# Each version of the suite that is run, and the environment that holds it.
VERSIONS = {"0.1.16": "conformance-0.1", "0.2.0-alpha.12": "conformance-0.2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a scenario: how many checks passed, and the output of the suite."""

    has_passed: bool
    passed_checks: int
    told: str


@cache
def scenarios(version: str, side: str = "client") -> dict[str, list[str]]:
    """Return every scenario for clients, or for servers, from the suite's own list, with its
    revisions."""
    told = _suite(version, "list", f"--{side}", timeout_seconds=60).stdout
    found = re.findall(r"^\s*- (\S+) \[(.*)\]$", told, re.MULTILINE)
    return {name: revisions.split(",") for name, revisions in found}


def run(version: str, scenario: str, database: Path, folder: Path, revision: str = "") -> Verdict:
    """Run one scenario against the client of this project, in a process with a copy of this
    database. It runs with the newest of its revisions, or with this one."""
    mine = shutil.copy(database, folder / "db.sqlite3")
    results = folder / "results"
    client = f"{sys.executable} -m tests.conformance.driver"
    words = ["client", "--scenario", scenario, "--command", client, "--timeout", "30000"]
    if not revision and version != "0.1.16" and MODERN in scenarios(version)[scenario]:
        revision = MODERN
    words += ["--spec-version", revision] if revision else []
    done = _suite(
        *(version, *words, "-o", str(results)),
        timeout_seconds=50,
        environment={
            "DATABASE_URL": f"sqlite:///{mine}",
            "DJANGO_SETTINGS_MODULE": "chatapp.settings",
            "LOG_LEVEL": "WARNING",
            "PUBLIC_URL": PUBLIC_URL,
            "VAR_DIR": str(folder),
        },
    )
    passed = sum(check["status"] == "SUCCESS" for check in _checks(results))
    return Verdict(
        has_passed=done.returncode == 0 and passed > 0,
        passed_checks=passed,
        told=f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}\n{_driver_said(results)}",
    )


def run_against(version: str, scenario: str, address: str, folder: Path) -> Verdict:
    """Run one scenario for servers against the server at this address."""
    results = folder / "results"
    words = ["server", "--scenario", scenario, "--url", address, "-o", str(results)]
    if version != "0.1.16":
        revisions = scenarios(version, "server")[scenario]
        words += ["--spec-version", MODERN if MODERN in revisions else revisions[-1]]
    done = _suite(version, *words, timeout_seconds=50)
    passed = sum(check["status"] == "SUCCESS" for check in _checks(results))
    return Verdict(
        has_passed=done.returncode == 0 and passed > 0,
        passed_checks=passed,
        told=f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}",
    )


def _suite(
    version: str,
    *words: str,
    timeout_seconds: float,
    environment: dict[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    package = npm_package(VERSIONS[version], "@modelcontextprotocol/conformance")
    process = subprocess.Popen(
        [str(node()), str(package / "dist/index.js"), *words],
        cwd=ROOT,
        env={**os.environ, "NODE_OPTIONS": f"--require {PRELOAD}", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        # The suite ends only with its client, and leaves one that hangs as it is.
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _checks(results: Path) -> list[dict[str, Any]]:
    return [
        check for file in results.rglob("checks.json") for check in json.loads(file.read_text())
    ]


def _driver_said(results: Path) -> str:
    return "\n".join(file.read_text()[-4000:] for file in results.rglob("std*.txt"))
