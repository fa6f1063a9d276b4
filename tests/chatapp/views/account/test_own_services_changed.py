"""What a person changes about a service of their own, and what a change never brings along."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import Member
from mcpconfig.models import Look, Service, ToolDefinition, ToolSetting
from mcpconfig.secrets import credentials
from mcpconfig.services.own_services import FIXED_FIELDS, MAX_LOOKS_A_MINUTE, TOO_OFTEN

from .test_own_services import CANARY, MINE, _house, form, mine, page

__all__ = ["_house", "mine"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def test_a_change_keeps_the_name_and_the_token(owner_client: Client, mine: Service) -> None:
    Service.objects.update(authentication="bearer")
    credentials.set_bearer(Service.objects.get(), CANARY)
    sent = form(name="other", title="New", authentication="bearer", url=mine.url)
    assert owner_client.post(f"{MINE}change/", sent).status_code == 302
    service = Service.objects.get()
    assert (service.name, service.title) == ("mine", "New")
    headers = credentials.load_request_headers(service, service.credential)
    assert headers == {"authorization": f"Bearer {CANARY}"}


def test_a_new_address_gets_nothing_of_the_old_server(owner_client: Client, mine: Service) -> None:
    Service.objects.update(
        authentication="bearer",
        is_trusted=True,
        is_open=False,
        new_tools="pass",
        allows_apps=True,
    )
    credentials.set_bearer(Service.objects.get(), CANARY)
    ToolDefinition.objects.create(service=mine, hash="h", name="echo")
    ToolSetting.objects.create(
        service=mine, name="echo", confirmed_hash="h", level="low", is_safe_to_repeat=True
    )
    ToolSetting.objects.create(service=mine, name="off", is_enabled=False)
    moved = form(url="https://127.0.0.1:2/mcp", authentication="bearer")

    assert owner_client.post(f"{MINE}change/", moved).status_code == 422, "no token for it yet"
    assert owner_client.post(f"{MINE}change/", moved | {"bearer": "another"}).status_code == 302

    service = Service.objects.get()
    assert {name: getattr(service, name) for name in FIXED_FIELDS} == FIXED_FIELDS
    headers = credentials.load_request_headers(service, service.credential)
    assert headers == {"authorization": "Bearer another"}
    assert not service.definitions.filter(is_current=True).exists()
    echo, off = service.settings.order_by("name")
    assert (echo.confirmed_hash, echo.level, echo.is_safe_to_repeat) == ("", "", False)
    assert not off.is_enabled, "what an admin switched off stays off"


def test_an_admin_who_owns_one_gets_no_way_inside_by_this_page(
    admin: Member, admin_client: Client
) -> None:
    admin_client.post("/services/add/", form(allows_private_addresses="on"))
    service = Service.objects.get()
    assert (service.owner, service.allows_private_addresses) == (admin, False)
    assert service.last_error is not None and service.last_error["kind"] == "blocked_address"


def test_removing_takes_all_of_it(owner_client: Client, mine: Service) -> None:
    credentials.set_bearer(mine, CANARY)
    assert owner_client.post(f"{MINE}remove")["Location"] == "/services/"
    assert not Service.objects.exists()
    assert owner_client.get(MINE).status_code == 404


# --- how often -----------------------------------------------------------------------------------
def test_a_service_is_looked_at_only_so_often_by_whichever_way(
    owner_client: Client, owner: Member, stranger: Member, stranger_client: Client, mine: Service
) -> None:
    Look.objects.bulk_create(Look(person=owner) for _ in range(MAX_LOOKS_A_MINUTE))
    tested = owner_client.post(f"{MINE}test")
    assert (tested.status_code, str(TOO_OFTEN) in page(tested).text) == (429, True)
    for place, sent in ((f"{MINE}change/", form(title="New")), ("/services/add/", form(name="b"))):
        answer = owner_client.post(place, sent)
        assert (answer.status_code, str(TOO_OFTEN) in page(answer).text) == (422, True)
    service = Service.objects.get()
    assert (service.title, service.last_error) == ("", None), "neither stored nor looked at"
    assert Look.objects.count() == MAX_LOOKS_A_MINUTE, "a refusal makes nobody wait longer"
    assert stranger_client.post("/services/add/", form(name="theirs")).status_code == 302


def test_after_a_minute_it_is_looked_at_again(
    owner_client: Client, owner: Member, mine: Service
) -> None:
    Look.objects.bulk_create(Look(person=owner) for _ in range(MAX_LOOKS_A_MINUTE))
    Look.objects.update(at=timezone.now() - timedelta(seconds=61))
    Service.objects.update(url="https://127.0.0.1:1/mcp")
    assert owner_client.post(f"{MINE}test").status_code == 302
    assert Service.objects.get().last_error is not None
    assert Look.objects.count() == 1, "nothing is kept longer than it counts"


def test_removing_and_adding_again_is_no_way_around_it(owner_client: Client) -> None:
    for _ in range(MAX_LOOKS_A_MINUTE):
        assert owner_client.post("/services/add/", form()).status_code == 302
        owner_client.post(f"{MINE}remove")
    assert owner_client.post("/services/add/", form()).status_code == 422
