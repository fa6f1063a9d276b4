"""`mcp add` and `--user`: for whom a service is, how one signs in, and who acts."""

import pytest
from django.contrib.auth.models import Group

from chatapp.models import Member
from mcpconfig.models import Service
from mcpconfig.secrets import credentials
from tests.mcp_command import Ran
from tests.peers.hostile import Hostile
from tests.peers.serving import Served

pytestmark = pytest.mark.timeout(30)

URL = "https://one.example/mcp"


@pytest.mark.parametrize(
    ("option", "authentication"),
    [
        ("--oauth", "oauth_user"),
        ("--oauth-shared", "oauth_shared"),
        ("--client-credentials", "client_credentials"),
    ],
)
def test_a_service_with_oauth_is_added(
    monkeypatch: pytest.MonkeyPatch, option: str, authentication: str
) -> None:
    monkeypatch.setenv("ONE_SECRET", "canary-secret-0123")
    words = ("--client-id", "an-id", "--client-secret-env", "ONE_SECRET", "--scope", "tools")
    assert Ran("add", "one", URL, option, *words, "--scope", "admin").code == 0

    service = Service.objects.get()
    assert (service.authentication, service.client_id) == (authentication, "an-id")
    assert service.scopes == "tools admin"
    assert credentials.load_client_secret(service) == "canary-secret-0123"
    assert "canary" not in Ran("status", "one", "--json").out


def test_a_service_is_added_for_groups() -> None:
    Group.objects.create(name="team")
    assert Ran("add", "one", URL, "--group", "team").code == 0
    assert Ran("status", "one", "--json").json["visibility"] == "groups"
    assert Ran("status", "one", "--json").json["groups"] == ["team"]


def test_a_service_is_added_for_admins_only() -> None:
    Ran("add", "one", URL, "--private")
    assert Ran("status", "one", "--json").json["visibility"] == "private"


def test_a_template_needs_a_member_who_acts(modern: Served, owner: Member) -> None:
    Ran("add", "box", modern.url, "--allow-private", "--header", "X-Who={user.username}")

    alone = Ran("test", "box")
    assert (alone.code, "--user" in alone.err) == (1, True)
    assert modern.arrivals.seen == []

    assert Ran("test", "box", "--user", "owner").code == 0
    assert Ran("tools", "box", "--user", "owner", "--json").code == 0
    assert Ran("resources", "box", "--user", "owner").code == 0
    called = Ran("call", "box", "echo", '{"text": "hi"}', "--user", "owner", "--json")
    assert called.json["content"] == [{"type": "text", "text": "hi"}]
    assert {one.headers.get("x-who") for one in modern.arrivals.seen} == {"owner", None}


def test_nobody_acts_who_may_not_use_the_service(
    modern: Served, owner: Member, stranger: Member
) -> None:
    Ran("add", "box", modern.url, "--allow-private")
    Service.objects.update(owner=owner, visibility="private")
    for name, said in (("stranger", "can’t use"), ("nobody", "no member")):
        ran = Ran("test", "box", "--user", name)
        assert (ran.code, said in ran.err) == (1, True)
    assert modern.arrivals.seen == []


def test_a_test_that_fails_prints_its_steps(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("h404", at_once=True), "--allow-private")

    ran = Ran("test", "bad")
    assert ran.code == 1
    assert "Streamable HTTP: There is no service at this URL" in ran.out
    assert "HTTP+SSE: There is no service at this URL" in ran.out

    printed = Ran("test", "bad", "--json").json
    assert printed["error"]["kind"] == "not_mcp"
    assert [step["name"] for step in printed["steps"]][0] == "Address"


def test_status_shows_the_next_try(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("h500", at_once=True), "--allow-private")
    Ran("tools", "bad")
    status = Ran("status", "bad", "--json").json
    assert (status["state"], status["retries"]) == ("failing", 0)
    assert status["next_retry_at"]
