"""The core tools that only look: the time anywhere, and the services that a person may use."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from chatapp.models import Member
from chatapp.tools.context import ToolError
from mcpconfig.models import IdentityProvider, Service, ToolDefinition, ToolSetting

from .core_calls import run, told

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("asked", "zone"),
    [
        ("Asia/Tokyo", "Asia/Tokyo"),
        ("asia/tokyo", "Asia/Tokyo"),
        ("Tokyo", "Asia/Tokyo"),
        (" new york ", "America/New_York"),
        ("utc", "UTC"),
    ],
)
def test_the_time_is_told_where_somebody_is(owner: Member, asked: str, zone: str) -> None:
    now = run("current-time", owner, zone=asked)
    assert now["zone"] == zone
    said = datetime.fromisoformat(now["time"])
    assert abs(said - timezone.now()) < timedelta(minutes=1)
    assert now["weekday"] == f"{said:%A}"


def test_tokyo_is_nine_hours_ahead(owner: Member) -> None:
    assert run("current-time", owner, zone="Asia/Tokyo")["time"].endswith("+09:00")


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("Tokio", "Asia/Tokyo"),
        ("Europe/Berlun", "Europe/Berlin"),
        ("Indianapolis", "America/Indiana/Indianapolis or America/Indianapolis"),
        ("../../etc/passwd", "Try “Europe/Berlin”"),
    ],
)
def test_an_unknown_zone_is_refused_with_names_that_are_near(
    owner: Member, asked: str, near: str
) -> None:
    with pytest.raises(ToolError, match="There is no time zone of this name") as refused:
        run("current-time", owner, zone=asked)
    assert refused.value.field == "zone"
    assert near in refused.value.message


def service(name: str, **fields: Any) -> Service:
    fields = {"visibility": "everyone", **fields}
    made = Service.objects.create(name=name, url="https://hidden.example/mcp?key=s3cret", **fields)
    for tool in ("read", "write"):
        ToolDefinition.objects.create(service=made, name=tool, hash=tool, input_schema={})
    return made


def states(person: Member) -> dict[str, str]:
    return {each["name"]: each["state"] for each in run("list-services", person)["services"]}


def test_each_service_is_listed_with_how_it_does(owner: Member) -> None:
    service("fine", title="A fine one")
    service("broken", last_error={"kind": "refused", "message": "No answer."})
    service("mine", authentication=Service.Authentication.OAUTH_USER)
    service("ours", authentication=Service.Authentication.OAUTH_SHARED)
    service("off", is_enabled=False)
    assert states(owner) == {
        "fine": "ready",
        "broken": "cannot be used now",
        "mine": "waits for your sign-in",
        "ours": "waits for an admin to sign in",
    }
    assert "- fine (A fine one): ready" in told("list-services", owner)


def test_tools_are_counted_where_their_owner_shows_them(owner: Member) -> None:
    shown, kept = service("shown"), service("kept", shares_tools=False)
    ToolSetting.objects.create(service=shown, name="write", is_enabled=False)
    counts = {each["name"]: each["tools"] for each in run("list-services", owner)["services"]}
    assert counts == {shown.name: 1, kept.name: None}


def test_many_services_cost_as_many_statements_as_few(
    owner: Member, django_assert_max_num_queries: Any
) -> None:
    company = IdentityProvider.objects.create(name="Acme", issuer="https://acme.example")
    ways = Service.Authentication
    for number, way in enumerate([*ways.values] * 4):
        provider = company if way == ways.COMPANY else None
        service(f"s{number}", authentication=way, identity_provider=provider)
    with django_assert_max_num_queries(6):
        listed = run("list-services", owner)["services"]
    assert len(listed) == 4 * len(ways)
    assert {each["state"] for each in listed} == {
        "ready",
        "waits for your sign-in",
        "waits for an admin to sign in",
    }


def test_what_others_may_use_is_not_listed(owner: Member, stranger: Member) -> None:
    group = Group.objects.create(name="readers")
    owner.groups.add(group)
    service("shared", visibility=Service.Visibility.GROUPS).groups.add(group)
    service("private", visibility=Service.Visibility.PRIVATE, owner=owner)
    assert set(states(owner)) == {"shared", "private"}
    assert states(stranger) == {}
    assert told("list-services", stranger) == "This person may use no service."


def test_nothing_of_the_configuration_is_told(owner: Member, admin: Member) -> None:
    service("fine", client_id="client-7", scopes="all")
    for person in (owner, admin):
        said = told("list-services", person) + str(run("list-services", person))
        for hidden in ("hidden.example", "s3cret", "client-7", "scopes"):
            assert hidden not in said
