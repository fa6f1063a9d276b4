"""`mcp trace`: what was exchanged, for programs and for people."""

import pytest

from mcpconfig.models import Exchange, Service
from tests.mcp_command import Ran
from tests.peers.serving import Served

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def box(handshake: Served) -> Served:
    Ran("add", "box", handshake.url, "--allow-private", "--transport", "streamable-http")
    Ran("tools", "box")
    Ran("call", "box", "echo", '{"text": "hello"}')
    return handshake


def test_json_holds_everything_about_each_exchange(box: Served) -> None:
    exchanges = Ran("trace", "box", "--json").json

    call = next(each for each in exchanges if each["rpc_method"] == "tools/call")
    assert (call["direction"], call["kind"], call["status"]) == ("sent", "request", 200)
    assert call["url"] == box.url
    assert call["era"] == "2025-11-25"
    assert call["attempt"] == 1
    assert call["received"][-1]["direction"] == "received"
    assert call["received"][-1]["kind"] == "response"
    assert call["received"][-1]["id"] == call["rpc_id"]


def test_people_see_each_operation_with_its_exchanges_in_order(box: Served) -> None:
    lines = Ran("trace", "box", "--limit", "100").out.splitlines()

    headings = [line for line in lines if not line.startswith(" ")]
    assert [heading.split()[2] for heading in headings] == ["call_tool", "list_tools"]
    shown = [line.split()[0] for line in lines[1 : lines.index(headings[1])]]
    # The stream on which the service may ask something opens beside the call.
    in_order = [method for method in shown if method != "GET"]
    assert in_order[:3] == ["initialize", "notifications/initialized", "tools/call"]


def test_one_operation_is_shown_with_its_bodies(box: Served) -> None:
    newest = Ran("trace", "box", "--json").json[0]

    one = Ran("trace", "box", "--operation", newest["operation_id"], "--limit", "50")

    assert "→" in one.out
    assert '"name": "echo"' in one.out
    assert "list_tools" not in one.out


def test_a_limit_is_kept(box: Served) -> None:
    assert len(Ran("trace", "box", "--json", "--limit", "2").json) == 2
    assert Ran("trace", "box", "--json", "--limit", "-1").json == []


def test_an_operation_that_is_no_id_is_a_sentence(box: Served) -> None:
    ran = Ran("trace", "box", "--operation", "the last one")

    assert ran.code == 1
    assert "id" in ran.err


def test_an_unknown_operation_has_no_exchanges(box: Served) -> None:
    assert Ran("trace", "box", "--operation", "0" * 32, "--json").json == []


def test_what_a_service_wrote_cannot_move_the_cursor() -> None:
    service = Service.objects.create(name="box", url="https://box.example/mcp")
    Exchange.objects.create(
        service=service,
        operation="call_tool",
        operation_id="0" * 32,
        method="POST",
        response_body="\x1b[2J\u202e",
    )

    shown = Ran("trace", "box", "--operation", "0" * 32).out

    assert "\x1b" not in shown
    assert "\u202e" not in shown
