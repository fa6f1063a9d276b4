"""The addresses of apps: whose they are, what they answer with, and what they take."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.api import apps
from chatapp.models import App, AppContents, Member, ToolCall, Turn
from mcpconfig.models import Service, ToolDefinition
from tests.turns.rows import call, turn

pytestmark = pytest.mark.django_db

URI = "ui://gallery/plain"
RESULT = {"content": [{"type": "text", "text": "Shown"}], "is_error": False, "structured": {"n": 1}}


@pytest.fixture
def gallery() -> Service:
    return Service.objects.create(
        name="gallery",
        url="https://gallery.example/mcp",
        allows_apps=True,
        app_origins="https://a.example",
        visibility="everyone",
    )


def tool(service: Service, name: str, **ui: Any) -> ToolDefinition:
    return ToolDefinition.objects.create(
        service=service, hash=name, name=name, input_schema={"type": "object"}, meta={"ui": ui}
    )


@pytest.fixture
def shown(owner: Member, gallery: Service) -> ToolCall:
    """A call whose app was read before."""
    definition = tool(gallery, "show", resourceUri=URI)
    made = call(
        turn(owner, Turn.State.DONE),
        {"words": "hi"},
        definition=definition,
        service=gallery,
        tool_id="gallery_show",
        tool_name="show",
        result=RESULT,
        attempt=1,
    )
    contents = AppContents.objects.create(hash="a" * 64, html="<script>1</script>")
    asked = ["https://a.example", "https://b.example"]
    App.objects.create(tool_call=made, contents=contents, uri=URI, connects=asked, loads=[])
    return made


def post(client: Client, shown: ToolCall, body: object) -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return client.post(f"/apps/{shown.pk}/call", text, content_type="text/plain")


def test_the_page_of_an_app_has_no_origin_and_reaches_only_what_was_allowed(
    owner_client: Client, shown: ToolCall
) -> None:
    answer = owner_client.get(f"/apps/{shown.pk}/")
    assert answer.content == b"<script>1</script>"
    policy = answer["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "connect-src https://a.example;" in policy
    assert "b.example" not in policy
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert answer["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer["Cache-Control"]


def test_an_origin_that_an_admin_takes_back_is_gone_at_the_next_showing(
    owner_client: Client, shown: ToolCall, gallery: Service
) -> None:
    Service.objects.filter(pk=gallery.pk).update(app_origins="")
    answer = owner_client.get(f"/apps/{shown.pk}/")
    assert "connect-src 'none'" in answer["Content-Security-Policy"]


def test_an_app_is_told_what_its_tool_was_given_and_answered(
    owner_client: Client, shown: ToolCall
) -> None:
    result = {"content": RESULT["content"], "isError": False, "structuredContent": {"n": 1}}
    assert owner_client.get(f"/apps/{shown.pk}/told").json() == {
        "messages": [
            {"method": "ui/notifications/tool-input", "params": {"arguments": {"words": "hi"}}},
            {"method": "ui/notifications/tool-result", "params": result},
        ]
    }


@pytest.mark.parametrize("path", ["", "told", "call", "calls/"])
def test_a_stranger_finds_no_app_at_any_of_its_addresses(
    stranger_client: Client, shown: ToolCall, path: str
) -> None:
    path += str(shown.pk) if path == "calls/" else ""
    ask = stranger_client.post if path == "call" else stranger_client.get
    assert ask(f"/apps/{shown.pk}/{path}").status_code == 404


def test_who_is_not_signed_in_is_sent_to_the_door(client: Client, shown: ToolCall) -> None:
    assert client.get(f"/apps/{shown.pk}/").status_code == 302
    assert post(client, shown, {"name": "show"}).status_code == 302


def test_a_call_needs_the_page_s_own_token(owner: Member, shown: ToolCall) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert post(strict, shown, {"name": "show", "arguments": {}}).status_code == 403
    assert Turn.objects.count() == 1


def test_a_call_is_accepted_and_told_of_while_it_is_open(
    owner_client: Client, shown: ToolCall, gallery: Service
) -> None:
    tool(gallery, "read")
    answer = post(owner_client, shown, {"name": "read", "arguments": {"a": 1}})
    assert answer.status_code == 202
    at = answer.json()["at"]
    made = ToolCall.objects.get(turn__app_of=shown)
    assert (made.arguments, made.tool_id, made.state) == ('{"a":1}', "gallery_read", "proposed")
    waiting = owner_client.get(at)
    assert (waiting.status_code, waiting.json()) == (202, {})
    long_ago = timezone.now() - timedelta(minutes=11)
    Turn.objects.filter(pk=made.turn_id).update(created_at=long_ago)
    assert "still waiting" in owner_client.get(at).json()["error"]
    Turn.objects.filter(pk=made.turn_id).update(state=Turn.State.DONE)
    ToolCall.objects.filter(pk=made.pk).update(state="succeeded", result=RESULT)
    assert owner_client.get(at).json()["result"]["content"] == RESULT["content"]


def test_an_app_is_told_nothing_of_calls_that_it_did_not_ask_for(
    owner: Member, owner_client: Client, shown: ToolCall
) -> None:
    other = call(turn(owner, Turn.State.DONE), result=RESULT)
    answer = owner_client.get(f"/apps/{shown.pk}/calls/{other.pk}")
    assert answer.status_code == 404
    assert "result" not in answer.json()


def test_a_second_call_waits_until_the_first_is_over(
    owner_client: Client, shown: ToolCall, gallery: Service
) -> None:
    tool(gallery, "read")
    assert post(owner_client, shown, {"name": "read"}).status_code == 202
    again = post(owner_client, shown, {"name": "read"})
    assert (again.status_code, again.json()) == (409, {"error": apps.BUSY, "busy": True})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 422),
        ("[", 422),
        ("[" * 20_000, 422),
        ([], 422),
        ({}, 422),
        ({"name": 7}, 422),
        ({"name": "re\x00ad"}, 422),
        ({"name": "re\ud800ad"}, 422),
        ({"name": "read", "arguments": []}, 200),
        ({"name": "read", "arguments": "x"}, 422),
        ({"name": "read", "arguments": {"n": 2**60}}, 422),
        ({"name": "read", "arguments": {"x": "x" * 70_000}}, 413),
        ({"name": "other"}, 403),
        ({"name": "show_model"}, 403),
    ],
)
def test_what_cannot_be_read_or_is_not_for_apps_is_refused_in_words(
    owner_client: Client, shown: ToolCall, gallery: Service, body: object, status: int
) -> None:
    tool(gallery, "read")
    tool(gallery, "show_model", visibility=["model"])
    answer = post(owner_client, shown, body)
    if status == 200:  # an empty list means no arguments
        assert answer.status_code == 202
        return
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")
    assert Turn.objects.count() == 1


def test_the_chat_shows_the_app_beside_the_row_in_a_sealed_frame(
    owner_client: Client, shown: ToolCall
) -> None:
    answer = owner_client.get(f"/c/{shown.turn.conversation_id}/")
    html = answer.content.decode()
    frame = html[html.index("<iframe") : html.index("</iframe>")]
    assert 'sandbox="allow-scripts"' in frame
    assert "src=" not in frame
    assert f'data-app="/apps/{shown.pk}/"' in html
    assert f'id="tool-call-{shown.pk}"' in html
    assert "js/app_frame.js" in html
    assert "frame-src 'self'" in answer["Content-Security-Policy"]


def test_a_service_without_apps_costs_a_page_nothing(
    owner_client: Client, shown: ToolCall, gallery: Service
) -> None:
    Service.objects.filter(pk=gallery.pk).update(allows_apps=False)
    html = owner_client.get(f"/c/{shown.turn.conversation_id}/").content.decode()
    assert "<iframe" not in html
    assert "app_frame.js" not in html
    assert "Shown" in html


def test_each_page_of_a_person_with_apps_has_their_script_and_chats_open_inside_it(
    owner_client: Client, shown: ToolCall, gallery: Service
) -> None:
    address = f"/c/{shown.turn.conversation_id}/"
    for page in ("/", "/usage/", address):
        assert b"js/app_frame" in owner_client.get(page).content, page
    opened = owner_client.get(address, headers={"HX-Request": "true"})
    assert (opened.status_code, "HX-Redirect" in opened) == (200, False)
    Service.objects.filter(pk=gallery.pk).update(allows_apps=False)
    assert b"js/app_frame" not in owner_client.get("/usage/").content


@pytest.mark.parametrize("state", ["failed", "unknown", "sending", "denied"])
def test_only_a_call_that_worked_shows_its_app(
    owner_client: Client, shown: ToolCall, state: str
) -> None:
    ToolCall.objects.filter(pk=shown.pk).update(state=state)
    assert owner_client.get(f"/apps/{shown.pk}/").status_code == 404
    assert "<iframe" not in owner_client.get(f"/c/{shown.turn.conversation_id}/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_service_that_cannot_be_asked_is_said_in_the_frame(
    owner_client: Client, shown: ToolCall, gallery: Service
) -> None:
    App.objects.all().delete()
    Service.objects.filter(pk=gallery.pk).update(url="http://127.0.0.1:9/mcp")
    answer = owner_client.get(f"/apps/{shown.pk}/")
    assert b"The app cannot be shown." in answer.content
    assert answer["Content-Security-Policy"].startswith("sandbox allow-scripts;")
    assert not App.objects.exists()
