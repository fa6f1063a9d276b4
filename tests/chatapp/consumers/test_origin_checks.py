"""Posts from other pages change nothing, even with the session and the token of the person."""

from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from chatapp.models import Member, ToolCall
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from tests.turns import rows

State = ToolCall.State
HERE = "http://testserver"
Post = Callable[..., HttpResponse]


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner), definition=rows.definition())


@pytest.fixture
def post(owner: Member, call: ToolCall) -> Post:
    """Press *Allow once* with the token of the page and these headers."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    client.get("/approvals/")
    values = {
        "csrfmiddlewaretoken": client.cookies["csrftoken"].value,
        "decision": "run",
        "version": rows.BINDING,
        "shown_at": fragments.sign_shown_at(call.pk, 0.0),
    }

    def send(*, without: str = "", **headers: str) -> HttpResponse:
        given = {name: value for name, value in values.items() if name != without}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer: HttpResponse = client.post(  # type: ignore[assignment]
            f"/approvals/{call.pk}/decide", given, headers=named
        )
        return answer

    return send


def state_of(call: ToolCall) -> str:
    return ToolCall.objects.get(pk=call.pk).state


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "object"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_what_another_page_sends_decides_nothing(
    post: Post, call: ToolCall, headers: dict[str, str]
) -> None:
    assert post(**headers).status_code == 403
    assert state_of(call) == State.AWAITING_APPROVAL


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": HERE},
        {"Origin": HERE, "Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document"},
        {"Origin": HERE, "Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "empty"},
    ],
)
def test_what_a_page_of_ours_sends_counts(
    post: Post, call: ToolCall, headers: dict[str, str]
) -> None:
    assert post(**headers).status_code == 302
    assert state_of(call) == State.APPROVED


def test_an_origin_that_the_operator_allowed_may_post(
    post: Post, call: ToolCall, settings: Settings
) -> None:
    settings.ALLOWED_ORIGINS = settings.CSRF_TRUSTED_ORIGINS = ["https://chat.example"]
    assert post(Origin="https://chat.example", Sec_Fetch_Site="same-site").status_code == 302
    assert state_of(call) == State.APPROVED


def test_a_page_says_when_its_card_was_made(post: Post, call: ToolCall) -> None:
    """A program was shown no card; a page that leaves the time out would pass by haste."""
    assert post(without="shown_at", Origin=HERE).status_code == 422
    assert state_of(call) == State.AWAITING_APPROVAL
    assert post(without="shown_at").status_code == 302


@pytest.mark.parametrize("source", ["div", "form#batch", "form#tool-call-x-answer"])
def test_only_the_form_of_the_card_runs_its_call(post: Post, call: ToolCall, source: str) -> None:
    """What a stranger's markup would make htmx send names the stranger's element."""
    assert post(HX_Request="true", HX_Source=source).status_code == 422
    assert state_of(call) == State.AWAITING_APPROVAL
    own = f"form#{page_values.tool_call_id(call.pk)}-answer"
    assert post(HX_Request="true", HX_Source=own).status_code == 200


@pytest.mark.django_db
def test_programs_with_tokens_of_their_own_come_from_anywhere(client: Client) -> None:
    answer = client.post("/v1/chat/completions", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 401


def test_signing_in_is_done_on_our_own_page(client: Client, owner: Member) -> None:
    values = {"username": "owner", "password": "owner-password"}
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/sign-in/", values, headers=headers).status_code == 403
    assert client.post("/sign-in/", values).status_code == 302
