"""Services that people add for themselves: only where an admin lets them, only for themselves, and
never a way inside or to what an admin granted to another server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from chatapp.models import HousePolicy, LogEntry, Member
from chatapp.tools.mentions import suggest_mentions
from chatapp.views.account.own_services import INSIDE
from mcpconfig.models import Service, ToolSetting
from mcpconfig.secrets import credentials
from mcpconfig.services.own_services import MAX_OWN
from tests.dom_tree import Element, parse
from tests.peers.outbound import Resolver, counted_connections
from tests.peers.public import at_public_address
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER, Watch, application, toolbox

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

CANARY = "canary-own-token-0123456789"
MINE = "/services/own/mine/"
GETS = ["/services/add/", MINE, f"{MINE}change/"]
POSTS = ["/services/add/", f"{MINE}change/", f"{MINE}test", f"{MINE}remove"]


@pytest.fixture(autouse=True)
def _house(db: Any, settings: Any) -> None:
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 10, 5
    HousePolicy(lets_add_services=True).save()


@pytest.fixture
def served(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, str]]:
    guarded = application(toolbox(Watch(), is_guarded=True))
    with at_public_address(guarded, tmp_path, settings, monkeypatch) as made:
        yield made


@pytest.fixture
def mine(owner: Member) -> Service:
    return Service.objects.create(
        name="mine",
        url="https://mine.example/mcp",
        owner=owner,
        added_by=owner,
        visibility="private",
    )


def form(**changes: Any) -> dict[str, Any]:
    fields = {"name": "mine", "title": "", "description": "", "authentication": "none"}
    return fields | {"url": "https://127.0.0.1:1/mcp", "bearer": "", "headers": ""} | changes


def page(answer: Any) -> Element:
    return parse(answer.content.decode())


# --- adding ------------------------------------------------------------------------------------
def test_a_person_adds_a_service_which_is_tested_at_once(
    owner: Member, owner_client: Client, served: tuple[Served, str]
) -> None:
    sent = form(url=served[1], title="My box", authentication="bearer", bearer=BEARER)
    added = owner_client.post("/services/add/", sent)

    assert (added.status_code, added["Location"]) == (302, MINE)
    service = Service.objects.get()
    assert (service.owner, service.visibility, service.state) == (owner, "private", "connected")
    assert (service.added_by, service.is_open) == (owner, True)
    shown = page(owner_client.get(MINE))
    assert shown.one("p", id="own-state")["data-state"] == "works"
    assert "7 tools" in shown.text
    assert BEARER not in str(owner_client.get(MINE).content)
    assert BEARER not in str(owner_client.get(f"{MINE}change/").content)


def test_its_tools_are_offered_and_ask(
    owner: Member, owner_client: Client, served: tuple[Served, str]
) -> None:
    sent = form(url=served[1], authentication="bearer", bearer=BEARER)
    owner_client.post("/services/add/", sent)
    (choice,) = suggest_mentions(owner, "@mine/echo").choices
    assert choice.state == "not confirmed yet, so it asks"
    assert not ToolSetting.objects.exists(), "to add is not to confirm"


def test_one_that_cannot_be_reached_is_kept_and_says_why(owner_client: Client) -> None:
    owner_client.post("/services/add/", form(url="https://127.0.0.1:1/mcp", bearer=CANARY))
    state = page(owner_client.get(MINE)).one("p", id="own-state")
    assert state["data-state"] == "failed"
    assert state.one("small").text == str(INSIDE), "It names the admin, who could allow it."


def test_one_with_oauth_offers_the_sign_in(owner_client: Client, served: Any) -> None:
    owner_client.post("/services/add/", form(url=served[1], authentication="oauth_user"))
    shown = page(owner_client.get(MINE))
    assert shown.one("p", id="own-state")["data-state"] == "not-connected"
    assert shown.all("form", action="/oauth/mcp/mine/start") != []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": "http://one.example/mcp"}, "url"),
        ({"url": "builtin:notebook"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "https://user:word@one.example/mcp"}, "url"),
        ({"name": "two words"}, "name"),
        ({"name": "taken"}, "name"),
        ({"authentication": "bearer"}, "bearer"),
        ({"authentication": "bearer", "bearer": "two words"}, "bearer"),
        ({"authentication": "headers", "headers": "no colon"}, "headers"),
        ({"authentication": "headers", "headers": "X-Sly: {env.OPENAI_API_KEY}"}, "headers"),
        ({"authentication": "headers", "headers": "Host: inside"}, "headers"),
        ({"authentication": "client_credentials"}, "authentication"),
        ({"authentication": "company"}, "authentication"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field_and_nothing_typed_is_lost(
    owner_client: Client, changes: dict[str, Any], field: str
) -> None:
    Service.objects.create(name="taken", url="https://a.example", visibility="private")
    sent = form(**{"title": "Kept", "description": "Kept too", **changes})
    answer = owner_client.post("/services/add/", sent)
    assert answer.status_code == 422
    shown = page(answer)
    assert shown.one("p", id=f"id_{field}_error").text
    assert shown.one("input", name="title")["value"] == "Kept"
    assert shown.one("textarea", name="description").text == "Kept too"
    assert shown.one("p", role="alert").text
    assert Service.objects.count() == 1


def test_there_is_a_most(owner: Member, owner_client: Client) -> None:
    for number in range(MAX_OWN):
        Service.objects.create(
            name=f"own-{number}",
            url="https://a.example",
            owner=owner,
            added_by=owner,
            visibility="private",
        )
    answer = owner_client.post("/services/add/", form())
    assert (answer.status_code, Service.objects.count()) == (422, MAX_OWN)
    assert page(answer).all("p", role="alert")


# --- never a way inside (SSRF) -------------------------------------------------------------------
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1", "0x7f000001"])
@pytest.mark.parametrize("granted", [False, True])
def test_no_private_address_is_ever_connected_to(
    owner_client: Client, host: str, granted: bool
) -> None:
    """Whatever is sent along, and whatever an admin once ticked for it."""
    with counted_connections() as (port, offered):
        sent = form(url=f"https://{host}:{port}/mcp")
        if granted:
            sent |= {"allows_private_addresses": "on", "is_trusted": "on", "owner": ""}
        owner_client.post("/services/add/", sent)
        Service.objects.update(allows_private_addresses=granted)
        if Service.objects.exists():
            owner_client.post(f"{MINE}test")
        assert offered() == 0


def test_a_name_that_leads_inside_is_not_followed(
    owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not where one of its addresses is a public one, or where it changes its mind."""
    with counted_connections() as (port, offered):
        answers = (["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["169.254.169.254"])
        monkeypatch.setattr("anyio.getaddrinfo", Resolver(*answers))
        owner_client.post("/services/add/", form(url=f"https://inside.example:{port}/mcp"))
        for _ in answers:
            owner_client.post(f"{MINE}test")
            assert Service.objects.get().last_error["kind"] == "blocked_address"  # type: ignore[index]
        assert offered() == 0


def test_a_redirect_leads_nowhere(
    owner_client: Client, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_connections() as (port, offered):

        async def redirect(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"location", f"http://127.0.0.1:{port}/inside".encode())]
            await send({"type": "http.response.start", "status": 307, "headers": headers})
            await send({"type": "http.response.body"})

        with at_public_address(redirect, tmp_path, settings, monkeypatch) as (_, url):
            owner_client.post("/services/add/", form(url=url))
            assert Service.objects.get().last_error is not None
        assert offered() == 0


# --- who may -------------------------------------------------------------------------------------
def nobody_may(owner: Member) -> None:
    HousePolicy.objects.update(lets_add_services=False)


def others_may(owner: Member) -> None:
    house = HousePolicy.current()
    house.adding_groups.add(Group.objects.create(name="testers"))


@pytest.mark.parametrize("forbids", [nobody_may, others_may])
def test_only_whom_an_admin_lets_adds_and_changes(
    owner: Member, owner_client: Client, mine: Service, forbids: Callable[[Member], None]
) -> None:
    forbids(owner)
    for place in ("/services/add/", f"{MINE}change/"):
        assert owner_client.get(place).status_code == 403
        assert owner_client.post(place, form(name="new", title="New")).status_code == 403
    assert [each.title for each in Service.objects.all()] == [""]
    assert page(owner_client.get("/services/")).all("a", href="/services/add/") == []
    assert page(owner_client.get(MINE)).all("a", href=f"{MINE}change/") == []
    assert owner_client.post(f"{MINE}remove").status_code == 302, "what is theirs may always go"


def test_a_member_of_the_group_may(owner: Member, owner_client: Client) -> None:
    others_may(owner)
    owner.groups.add(Group.objects.get())
    assert owner_client.post("/services/add/", form()).status_code == 302


def test_nobody_may_until_an_admin_says_so(owner: Member) -> None:
    HousePolicy.objects.all().delete()
    assert not HousePolicy.current().lets_add(owner)


def test_a_stranger_and_an_admin_find_nothing_there(
    mine: Service, stranger_client: Client, admin_client: Client, client: Client
) -> None:
    """They cannot see, change, test or remove it."""
    Service.objects.update(last_error=None)
    for place in (*GETS[1:], *POSTS[1:]):
        for somebody in (stranger_client, admin_client):
            answer = somebody.post(place, form()) if place in POSTS else somebody.get(place)
            assert answer.status_code in (404, 405), place
            assert "mine.example" not in answer.content.decode()
        assert client.post(place).status_code in (302, 405)
    for somebody in (stranger_client, admin_client):
        assert "mine" not in page(somebody.get("/services/")).one("main").text
    assert Service.objects.get().last_error is None
    assert Service.objects.get().url == "https://mine.example/mcp"


def test_one_that_an_admin_made_for_all_is_not_its_owners_to_change(
    mine: Service, owner_client: Client
) -> None:
    Service.objects.update(visibility="everyone")
    assert owner_client.post(f"{MINE}change/", form(title="Stolen")).status_code == 404
    assert owner_client.post(f"{MINE}remove").status_code == 404


def test_one_that_an_admin_made_for_its_owner_is_not_theirs_to_change(
    owner_client: Client, mine: Service
) -> None:
    """Its token is the admin's, and its owner reads no part of it."""
    Service.objects.update(added_by=None, authentication="bearer")
    credentials.set_bearer(Service.objects.get(), CANARY)
    for place in GETS[1:]:
        assert owner_client.get(place).status_code == 404
    for place in POSTS[1:]:
        assert owner_client.post(place, form(title="Stolen")).status_code == 404
    shown = page(owner_client.get("/services/"))
    assert "mine" in shown.one("main").text and shown.all("a", href=MINE) == []
    assert (Service.objects.get().title, Service.objects.count()) == ("", 1)


def test_one_that_an_admin_gave_to_somebody_else_is_not_theirs_to_change(
    owner_client: Client, stranger_client: Client, stranger: Member, mine: Service
) -> None:
    Service.objects.update(owner=stranger)
    for somebody in (owner_client, stranger_client):
        assert somebody.get(f"{MINE}change/").status_code == 404


def test_no_part_of_a_persons_secret_is_shown_to_them_or_to_an_admin(
    owner_client: Client, admin_client: Client, mine: Service
) -> None:
    credentials.set_bearer(mine, CANARY)
    for client, place in (
        (owner_client, f"{MINE}change/"),
        (admin_client, f"/admin/mcpconfig/service/{mine.pk}/change/"),
    ):
        shown = client.get(place).content.decode()
        assert "Currently: set on" in shown and "ends in" not in shown
    assert "ends in" not in str(credentials.summarize_secrets(mine))


def test_each_act_needs_its_token(owner: Member, mine: Service) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    for place in POSTS:
        assert strict.post(place, form()).status_code == 403


# --- what an admin does --------------------------------------------------------------------------
def test_what_an_admin_switched_off_stays_off(owner_client: Client, mine: Service) -> None:
    Service.objects.update(is_enabled=False)
    assert page(owner_client.get("/services/")).with_class("notice")[0].one("a", href=MINE)
    assert page(owner_client.get(MINE)).one("p", id="own-state")["data-state"] == "switched-off"
    for place in (f"{MINE}change/", f"{MINE}test"):
        assert owner_client.post(place, form(is_enabled="on")).status_code == 403
    assert not Service.objects.get().is_enabled


def test_an_admin_sees_whose_it_is_and_can_switch_it_off_or_take_it_away(
    owner: Member, mine: Service, admin_client: Client
) -> None:
    listed = admin_client.get("/admin/mcpconfig/service/", {"owner__id__exact": owner.pk})
    assert "owner" in page(listed).one("td", class_="field-seen_by").text
    act = {"action": "disable", "_selected_action": mine.pk}
    admin_client.post("/admin/mcpconfig/service/", act)
    assert not Service.objects.get().is_enabled
    admin_client.post(f"/admin/mcpconfig/service/{mine.pk}/delete/", {"post": "yes"})
    assert not Service.objects.exists()


def test_the_log_has_who_added_what(owner: Member, owner_client: Client) -> None:
    owner_client.post("/services/add/", form(authentication="bearer", bearer=CANARY))
    added = [entry for entry in LogEntry.objects.all() if "service mine" in str(entry.data)]
    assert added and added[0].actor_name == "owner"
    assert CANARY not in str([entry.data for entry in LogEntry.objects.all()])
