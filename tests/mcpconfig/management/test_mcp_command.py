"""`manage.py mcp`: its output is a contract, its failures are sentences, its exit codes count."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import ManagementUtility

from mcpconfig.models import Credential, Service, ToolSetting
from mcpconfig.values.hooks import Hooks, ToolDescription, using_hooks
from tests.mcp_command import Ran
from tests.peers.hostile import Hostile
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def toolbox(modern: Served) -> Served:
    assert Ran("add", "box", modern.url, "--allow-private").code == 0
    return modern


@pytest.fixture
def _described() -> Iterator[None]:
    def describe(tool: Any, _setting: Any) -> ToolDescription:
        return ToolDescription(id=f"box_{tool.name}", level="low", reasons=["r"])

    with using_hooks(Hooks(describe_tool=describe)):
        yield


def test_a_service_is_added_listed_and_removed() -> None:
    assert Ran("add", "one", "https://one.example/mcp", "--transport", "sse", "--trusted").code == 0

    (listed,) = Ran("list", "--json").json
    assert (listed["name"], listed["transport"], listed["trusted"]) == ("one", "sse", True)
    assert "one.example" in Ran("list").out

    assert Ran("remove", "one", "--json").json == {"removed": "one"}
    assert not Service.objects.exists()


def test_a_bearer_token_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, guarded: Served
) -> None:
    monkeypatch.setenv("BOX_TOKEN", BEARER)
    Ran("add", "box", guarded.url, "--bearer-env", "BOX_TOKEN", "--allow-private")

    assert Ran("test", "box").code == 0
    everything = Ran("status", "box", "--json").out + Ran("trace", "box", "--json").out
    assert BEARER not in everything


def test_headers_are_kept_encrypted() -> None:
    Ran("add", "one", "https://one.example/mcp", "--header", "X-Key=canary=1", "--header", "Y=2")

    assert Service.objects.get().authentication == "headers"
    assert b"canary" not in bytes(Credential.objects.get().headers)


@pytest.mark.parametrize("words", [["mcp"], ["mcp", "fly"]])
def test_what_is_no_verb_exits_with_two(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        ManagementUtility(["manage.py", *words]).execute()
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_test_reports_in_json(toolbox: Served) -> None:
    report = Ran("test", "box", "--json").json

    assert (report["server_name"], report["era"], report["tool_count"]) == (
        "toolbox",
        "2026-07-28",
        7,
    )


@pytest.mark.usefixtures("_described")
def test_tools_are_listed_with_id_risk_and_state(toolbox: Served) -> None:
    tools = {tool["name"]: tool for tool in Ran("tools", "box", "--json").json}

    echo = tools["echo"]
    assert set(echo) == {
        "name",
        "id",
        "description",
        "inputSchema",
        "annotations",
        "hash",
        "level",
        "reasons",
        "state",
    }
    assert (echo["id"], echo["level"], echo["state"]) == ("box_echo", "low", "new")
    assert echo["annotations"] == {"readOnlyHint": True}


def test_confirming_changes_the_state(toolbox: Served) -> None:
    assert Ran("confirm", "box", "echo", "--json").json == {"confirmed": 1}
    assert ToolSetting.objects.get().name == "echo"

    Ran("confirm", "box")
    assert {tool["state"] for tool in Ran("tools", "box", "--json").json} == {"confirmed"}


def test_a_call_prints_the_result_as_the_contract_says(toolbox: Served) -> None:
    ran = Ran("call", "box", "add", '{"a": 1, "b": 2}', "--json")

    assert ran.code == 0
    value = ran.json
    assert isinstance(value.pop("duration_ms"), int)
    assert value.pop("content")[0]["type"] == "text"
    assert value == {
        "is_error": False,
        "structured": {"total": 3},
        "outcome": "succeeded",
        "requests": 1,
    }
    assert Ran("call", "box", "echo", '{"text": "hello"}').out.strip() == "hello"


def test_a_tool_that_failed_exits_with_one(toolbox: Served) -> None:
    ran = Ran("call", "box", "fail", "--json")

    assert ran.code == 1
    assert (ran.json["is_error"], ran.json["outcome"]) == (True, "failed")


def test_a_call_without_an_answer_has_an_unknown_outcome(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("h500"), "--allow-private")

    ran = Ran("call", "bad", "act", "--json")

    assert ran.code == 1
    assert (ran.json["outcome"], ran.json["error"]["kind"]) == ("unknown", "server_error")
    assert ran.err.startswith("server_error: ")


def test_a_failure_in_json_is_json_only(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("h401", at_once=True), "--allow-private")

    error = Ran("test", "bad", "--json").json["error"]

    assert set(error) == {"kind", "message", "hint"}
    assert error["kind"] == "sign_in_needed"


def test_the_trace_shows_what_was_exchanged(toolbox: Served) -> None:
    Ran("call", "box", "echo", '{"text": "x"}')

    newest = Ran("trace", "box", "--json").json[0]

    assert (newest["rpc_method"], newest["status"]) == ("tools/call", 200)
    assert "tools/call" in Ran("trace", "box", "--limit", "1").out
