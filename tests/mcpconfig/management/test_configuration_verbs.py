"""`mcp add` and `mcp set`: all that the admin's form holds, from the command line."""

from typing import Any

import pytest
from django.contrib.auth.models import Group

from chatapp.models import Member
from mcpconfig.models import IdentityProvider, Service
from mcpconfig.secrets import credentials
from mcpconfig.services.service_form import SECRETS, ServiceForm
from tests.mcp_command import Ran
from tests.peers.serving import Served

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

URL = "https://one.example/mcp"
# The option that sets each field of the admin's form, and what is in the service then.
OPTIONS: dict[str, tuple[tuple[str, ...], Any]] = {
    "title": (("--title", "The one"), "The one"),
    "description": (("--description", "It knows."), "It knows."),
    "guidance": (("--guidance", "Ask it first."), "Ask it first."),
    "icon": (("--icon", "📚"), "📚"),
    "colour": (("--colour", "blue"), "blue"),
    "is_enabled": (("--no-enabled",), False),
    "transport": (("--transport", "sse"), "sse"),
    "allows_private_addresses": (("--allow-private",), True),
    "authentication": (("--oauth",), "oauth_user"),
    "identity_provider": (
        ("--company-sign-in", "acme", "--client-id", "an-id", "--client-secret-env", "SECRET"),
        "acme",
    ),
    "client_id": (("--oauth", "--client-id", "an-id"), "an-id"),
    "scopes": (("--oauth", "--scope", "read", "--scope", "write"), "read write"),
    "visibility": (("--private",), "private"),
    "groups": (("--group", "team"), ["team"]),
    "owner": (("--owner", "owner"), "owner"),
    "shares_tools": (("--no-share-tools",), False),
    "is_trusted": (("--trusted",), True),
    "is_open": (("--open",), True),
    "starts_on": (("--no-on-at-first",), False),
    "new_tools": (("--new-tools", "pass"), "pass"),
    "reconnects": (("--retries", "0"), False),
    "most_retries": (("--retries", "3"), 3),
    "allows_apps": (("--allow-apps",), True),
    "app_origins": (
        ("--app-origin", "https://a.example", "--app-origin", "https://b.example"),
        "https://a.example\nhttps://b.example",
    ),
    "bearer": (("--bearer-env", "SECRET"), "bearer"),
    "headers": (("--header", "X-Key=1"), "headers"),
    "client_secret": (("--oauth", "--client-secret-env", "SECRET"), "oauth_user"),
}


def held(field: str) -> Any:
    """What the service holds in a field of the form; of a secret, how one signs in with it."""
    service = Service.objects.get()
    if field == "groups":
        return [group.name for group in service.groups.all()]
    if field == "owner":
        return service.owner and service.owner.get_username()
    if field == "identity_provider":
        return service.identity_provider and service.identity_provider.name
    if field in SECRETS:
        is_set = credentials.summarize_secret(service, field) != str(credentials.NOT_SET)
        return service.authentication if is_set else None
    return getattr(service, field)


@pytest.fixture(autouse=True)
def _surroundings(owner: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    Group.objects.create(name="team")
    IdentityProvider.objects.create(name="acme", issuer="https://id.example", client_id="us")
    monkeypatch.setenv("SECRET", "canary-secret-0123")


def test_each_field_of_the_form_has_an_option() -> None:
    fields = {*ServiceForm.Meta.fields, *SECRETS} - {"name", "url"}
    assert set(OPTIONS) == fields


@pytest.mark.parametrize("field", OPTIONS)
def test_a_service_is_added_with_the_field(field: str) -> None:
    options, value = OPTIONS[field]
    added = Ran("add", "one", URL, *options, "--json")
    assert added.code == 0, added.err
    assert held(field) == value
    assert "canary" not in added.out + Ran("status", "one").out


@pytest.mark.parametrize("field", OPTIONS)
def test_the_field_is_changed_and_the_others_stay(field: str) -> None:
    Ran("add", "one", URL, "--title", "Before", "--scope", "all", "--oauth", "--group", "team")
    Service.objects.update(known_era="2026-07-28", last_error={"kind": "tls"}, retries=2)
    options, value = OPTIONS[field]

    changed = Ran("set", "one", *options)

    assert changed.code == 0, changed.err
    assert held(field) == value
    service = Service.objects.get()
    assert (service.url, service.known_era) == (URL, "2026-07-28"), "what was learned stays"
    assert (service.last_error, service.retries) == (None, 0), "it may be the cure"
    if field != "title":
        assert service.title == "Before"
    if field not in ("groups", "visibility"):
        assert held("groups") == ["team"]


def test_a_token_is_renewed_without_anything_else() -> None:
    Ran("add", "one", URL, "--bearer-env", "SECRET", "--trusted")
    before = Ran("status", "one", "--json").json
    assert Ran("set", "one", "--bearer-env", "SECRET").code == 0
    assert Ran("status", "one", "--json").json == before


def test_a_new_url_is_a_new_server(modern: Served) -> None:
    Ran("add", "box", modern.url, "--allow-private")
    Ran("tools", "box")
    Ran("set", "box", "--header", "X-Key=1")

    moved = Ran("set", "box", "--url", URL, "--no-sign-in")

    assert "The URL changed" in moved.out
    status = Ran("status", "box", "--json").json
    assert (status["url"], status["tools"], status["secrets"], status["state"]) == (
        URL,
        0,
        {},
        "configured",
    )
    assert "The URL changed" not in Ran("set", "box", "--url", URL, "--title", "x").out


def test_a_secret_is_not_carried_to_a_new_url() -> None:
    Ran("add", "one", URL, "--bearer-env", "SECRET")
    moved = Ran("set", "one", "--url", "https://two.example/mcp")
    assert (moved.code, "bearer: Required." in moved.err) == (1, True)
    assert Service.objects.get().url == URL
