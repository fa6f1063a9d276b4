"""An access token admits its own program, as far as its scopes reach."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connection
from django.http import HttpResponse, JsonResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import path
from django.utils import timezone

from chatapp.api import access_tokens
from chatapp.models import AccessToken, LogEntry, Member
from chatapp.server.runtime import Runtime, using_runtime
from chatapp.views.api.bearer import ProgramRequest, for_programs

pytestmark = pytest.mark.django_db


@for_programs("tools", "chat", methods=("GET", "POST"))
async def tell(request: ProgramRequest) -> HttpResponse:
    """Says for whom it acts."""
    return JsonResponse({"person": request.token.person.username})


urlpatterns = [path("told", tell)]


@pytest.fixture(autouse=True)
def _addresses() -> Any:
    with override_settings(ROOT_URLCONF=__name__):
        yield


def create_token(person: Member, *scopes: str, days: int = 7) -> tuple[AccessToken, str]:
    return access_tokens.create(person, name="A program", scopes=scopes or ("tools",), days=days)


def ask(text: str, client: Client | None = None, **headers: str) -> Any:
    shown = {"Authorization": f"Bearer {text}"} if text else {}
    return (client or Client()).get("/told", headers=shown | headers)


def kind(answer: Any) -> str:
    return str(answer.json()["error"]["kind"])


def test_a_token_acts_for_its_person(owner: Member) -> None:
    _, text = create_token(owner)
    answer = ask(text)
    assert (answer.status_code, answer.json()) == (200, {"person": "owner"})
    assert "no-store" in answer["Cache-Control"]
    assert not answer.cookies


@pytest.mark.django_db(transaction=True)
async def test_a_program_that_waits_holds_no_connection(owner: Member) -> None:
    _, text = await sync_to_async(create_token)(owner)
    connections = []

    @for_programs("tools", methods=("GET",))
    async def wait(request: ProgramRequest) -> HttpResponse:
        connections.append(await sync_to_async(lambda: connection.connection)())
        return HttpResponse()

    async with ThreadSensitiveContext():  # the thread of one request
        await wait(RequestFactory().get("/", headers={"Authorization": f"Bearer {text}"}))
    assert connections == [None]


def test_each_of_the_named_scopes_is_enough_and_no_other(owner: Member) -> None:
    assert ask(create_token(owner, "chat")[1]).status_code == 200
    refused = ask(create_token(owner, "mcp", "mcp:plan")[1])
    assert (refused.status_code, kind(refused)) == (403, "scope")
    assert 'scope="tools chat"' in refused["WWW-Authenticate"]


def test_without_a_token_the_answer_says_how_to_get_one(client: Client) -> None:
    answer = client.get("/told")
    assert (answer.status_code, kind(answer)) == (401, "token_missing")
    assert answer["WWW-Authenticate"] == "Bearer"
    assert "Access tokens" in answer.json()["error"]["hint"]


def test_a_session_lets_no_program_in(owner_client: Client) -> None:
    assert owner_client.get("/told").status_code == 401


def test_a_session_beside_a_token_changes_nothing(stranger_client: Client, owner: Member) -> None:
    answer = ask(create_token(owner)[1], stranger_client)
    assert answer.json() == {"person": "owner"}


def test_a_post_needs_no_csrf_token_because_no_cookie_counts(owner: Member) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert strict.post("/told").status_code == 401
    shown = {"Authorization": f"Bearer {create_token(owner)[1]}"}
    assert strict.post("/told", headers=shown).status_code == 200


@pytest.mark.parametrize("header", ["X-User", "Remote-User", "X-Forwarded-User", "X-Api-Key"])
def test_no_other_header_names_anybody(owner: Member, header: str) -> None:
    assert ask("", None, **{header: "owner"}).status_code == 401
    assert ask("", None, **{header: create_token(owner)[1]}).status_code == 401


@pytest.mark.parametrize("name", ["access_token", "token", "api_key", "Authorization"])
def test_a_token_in_the_address_is_refused_though_right(owner: Member, name: str) -> None:
    text = create_token(owner)[1]
    answer = Client().get("/told", {name: text}, headers={"Authorization": f"Bearer {text}"})
    assert (answer.status_code, kind(answer)) == (400, "token_in_address")


@pytest.mark.parametrize(
    "text",
    [
        *("cs_", "cs", "_", "cs__x", "cs_zz_zz", "x" * 5_000, "cs_\x00_x", "Bearer", "null"),
        *("cs_' OR 1=1 --_x", "cs_é_x", "cs_%s_x"),
    ],
)
def test_text_that_is_no_token_opens_nothing(db: None, text: str) -> None:
    answer = ask(text)
    assert (answer.status_code, kind(answer)) == (401, "token_unknown")


def test_basic_and_empty_authorization_open_nothing(owner: Member) -> None:
    text = create_token(owner)[1]
    for header in (f"Basic {text}", "Bearer", "Bearer ", text, ""):
        assert Client().get("/told", headers={"Authorization": header}).status_code == 401


def test_the_prefix_with_another_secret_opens_nothing(owner: Member, stranger: Member) -> None:
    token, text = create_token(owner)
    _, other = create_token(stranger)
    mixed = f"cs_{token.prefix}_{other.split('_', 2)[2]}"
    assert ask(mixed).status_code == 401
    assert ask(text + "x").status_code == 401
    assert ask(text[:-1]).status_code == 401
    assert ask(token.secret_hash).status_code == 401


def test_an_expired_token_opens_nothing(owner: Member) -> None:
    token, text = create_token(owner)
    AccessToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    assert kind(ask(text)) == "token_ended"


def test_a_revoked_token_opens_nothing_from_then_on(owner: Member) -> None:
    token, text = create_token(owner)
    assert ask(text).status_code == 200
    assert access_tokens.revoke(token)
    assert kind(ask(text)) == "token_ended"
    assert not access_tokens.revoke(token)


def test_a_member_who_was_switched_off_has_no_programs_either(owner: Member) -> None:
    _, text = create_token(owner)
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    assert kind(ask(text)) == "token_ended"


def test_too_many_wrong_texts_lock_the_token_for_that_address_only(
    owner: Member, settings: Any
) -> None:
    settings.AXES_ENABLED, settings.AXES_FAILURE_LIMIT = True, 3
    token, text = create_token(owner)
    answers = [ask(f"cs_{token.prefix}_wrong") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    locked = ask(text)
    assert (locked.status_code, kind(locked)) == (429, "too_many_tries")
    assert int(locked["Retry-After"]) > 0
    elsewhere = Client(REMOTE_ADDR="192.0.2.9")
    assert ask(text, elsewhere).status_code == 200


def test_texts_of_nobody_leave_no_rows(db: None, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        ask("cs_12345678_wrong")


def test_the_last_use_is_kept_to_the_minute(owner: Member) -> None:
    token, text = create_token(owner)
    ask(text)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None and timezone.now() - first < timedelta(seconds=20)
    ask(text)
    token.refresh_from_db()
    assert token.last_used_at == first
    AccessToken.objects.filter(pk=token.pk).update(last_used_at=first - timedelta(seconds=61))
    ask(text)
    token.refresh_from_db()
    assert token.last_used_at is not None and token.last_used_at >= first


def test_nothing_of_a_token_that_opens_something_is_stored(owner: Member) -> None:
    token, text = create_token(owner)
    ask(text)
    secret = text.split("_", 2)[2]
    row = AccessToken.objects.filter(pk=token.pk).values()[0]
    assert not any(secret in str(value) for value in row.values())
    said = " ".join(LogEntry.objects.values_list("data", flat=True))
    assert token.prefix in said and secret not in said


def test_making_and_revoking_are_logged_with_who_did_it(owner: Member) -> None:
    token, _ = create_token(owner, "mcp", "tools")
    access_tokens.revoke(token)
    entries = LogEntry.objects.filter(kind__startswith="token.").order_by("position")
    assert [entry.kind for entry in entries] == ["token.made", "token.revoked"]
    assert {entry.person_name for entry in entries} == {"owner"}
    assert {entry.actor_name for entry in entries} == {"operator"}
    assert '"scopes":["mcp","tools"]' in entries[0].data


def test_a_person_has_a_number_of_requests_per_minute(
    owner: Member, stranger: Member, settings: Any
) -> None:
    settings.API_REQUESTS_PER_MINUTE = 3
    tokens = [create_token(owner)[1], create_token(owner)[1]]
    other = create_token(stranger)[1]
    with using_runtime(Runtime()):
        answers = [ask(tokens[number % 2]) for number in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert kind(answers[-1]) == "too_many_requests"
        assert int(answers[-1]["Retry-After"]) > 0
        assert f"{answers[-1]['Retry-After']} second" in answers[-1].json()["error"]["hint"]
        assert ask(other).status_code == 200
