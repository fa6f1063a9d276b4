"""Programs that others wrote use our tools through a real server, and a person stays in between."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.migrated import make_sqlite
from tests.peers.clients import CLIENTS, Unavailable
from tests.peers.installing import python_program

from .server import Installation, Server, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
OFFERED = {"current-time", "list-services", "remember", "recall", "search-conversations"}


class Home:
    """A server with a member, and a token for their programs."""

    def __init__(self, folder: Path) -> None:
        database = {"DATABASE_URL": make_sqlite(folder / "programs.sqlite3")}
        self.installation = Installation(folder, **database)
        self.installation.manage("member", "add", "owner", "--password-env", "PASSWORD")
        words = ["token", "create", "Peers", "--scope", "mcp", "--scope", "tools", "--json"]
        self.token: str = json.loads(self.installation.manage(*words))["token"]
        self.server: Server = self.installation.server("programs")
        self.server.start()

    def answer(self, verb: str, call_id: str) -> None:
        self.installation.manage("approvals", verb, call_id)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("programs"))
    yield made
    made.installation.close()


@pytest.fixture(scope="module", params=CLIENTS)
def peer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_program_of_others_lists_our_tools_and_calls_one(home: Home, peer: str) -> None:
    try:
        told = CLIENTS[peer](
            f"{home.server.address}/mcp", home.token, "current-time", {"zone": "Asia/Tokyo"}
        )
    except Unavailable as error:
        pytest.skip(f"{peer} cannot be had: {error}")
    assert set(told.tools) >= OFFERED
    assert told.result["structuredContent"]["zone"] == "Asia/Tokyo"
    assert "Asia/Tokyo" in told.text


def test_what_must_be_approved_waits_for_the_person_and_then_runs_once(
    home: Home, peer: str
) -> None:
    fact = {"text": f"{peer} asked for it."}
    address = f"{home.server.address}/mcp"
    waits = CLIENTS[peer](address, home.token, "remember", fact)
    assert waits.result["isError"]
    found = re.search(r"/approvals/([0-9a-f-]{36})/", waits.text)
    assert found is not None, waits.text
    home.answer("approve", found[1])
    eventually(
        lambda: not CLIENTS[peer](address, home.token, "remember", fact).result.get("isError"),
        "the call is done",
    )
    kept = CLIENTS[peer](address, home.token, "recall", {"words": peer})
    assert kept.text.count("asked for it") == 1


def test_schemathesis_finds_no_server_error_on_the_rest_face(home: Home, tmp_path: Path) -> None:
    try:
        program = python_program("schemathesis", "schemathesis")
    except Unavailable as error:
        pytest.skip(f"schemathesis cannot be had: {error}")
    done = subprocess.run(
        [
            *(str(program), "run", f"{home.server.address}/api/openapi.json"),
            *("--header", f"Authorization: Bearer {home.token}"),
            *("--checks", "not_a_server_error,status_code_conformance"),
            *("--checks", "content_type_conformance,response_schema_conformance"),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1"),
            *("--generation-database", "none", "--request-timeout", "30"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=360,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in home.server.log
