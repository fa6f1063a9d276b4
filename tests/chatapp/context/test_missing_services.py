"""A service that fails, or that a person may not use, is not offered; what fails is said."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.utils import timezone

from chatapp.context.system_prompt import build_system_prompt
from chatapp.conversations.intake import find_unknown_services
from chatapp.models import Member
from chatapp.tools.catalogue import Catalogue, build_catalogue
from chatapp.tools.tool_list_refresh import describe_error
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.secrets import credentials
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(30)]

REFUSED = {"kind": "refused", "message": "Nothing answers there.", "hint": "", "at": "now"}
SIGN_IN = {"kind": "sign_in_needed", "message": "It wants a sign-in.", "hint": "", "at": "now"}


def a_service(name: str = "memos", **fields: Any) -> Service:
    """A stored service with one tool, whose list was read a moment ago."""
    fresh = timezone.now() + timedelta(hours=1)
    values = {"url": "https://nowhere.invalid/mcp", "tools_fresh_until": fresh} | fields
    service = Service.objects.create(name=name, **{"visibility": "everyone", **values})
    ToolDefinition.objects.create(service=service, hash=f"{name} list", name="list")
    return service


def offered(person: Member, services: list[str] | None = None) -> Catalogue:
    return async_to_sync(build_catalogue)(person, services, "c-1")


@pytest.fixture
def toolbox_served() -> Iterator[Served]:
    with Served(application(toolbox(Watch()))) as served:
        yield served


def test_a_failing_service_is_missing_with_its_reason_and_the_others_stay(owner: Member) -> None:
    a_service("memos", last_error=REFUSED)
    a_service("wiki")
    catalogue = offered(owner)
    assert list(catalogue) == ["wiki_list"]
    assert catalogue.missing == (("memos", "Nothing answers there."),)


def test_the_model_is_told_which_service_is_missing(owner: Member) -> None:
    a_service("memos", last_error=REFUSED)
    sentence = "The tools of “memos” cannot be used now. Nothing answers there."
    assert sentence in build_system_prompt(offered(owner))


def test_a_service_that_wants_a_sign_in_of_the_admins_is_missing(owner: Member) -> None:
    a_service("memos", last_error=SIGN_IN)
    assert offered(owner).missing == (("memos", "It wants a sign-in."),)


def test_nothing_is_missing_of_what_was_not_asked_for(owner: Member) -> None:
    a_service("memos", last_error=REFUSED)
    a_service("wiki")
    assert offered(owner, ["wiki"]).missing == ()


@pytest.mark.parametrize("kind", ["rpc_error", "configuration"])
def test_what_a_service_says_itself_does_not_reach_the_instructions(kind: str) -> None:
    assert "OBEY" not in describe_error(kind, "The service redirects to https://x/OBEY-ME")


def test_a_service_whose_time_has_come_is_looked_at_by_the_turn_that_needs_it(
    owner: Member, toolbox_served: Served
) -> None:
    a_service(
        "box",
        url=toolbox_served.url,
        allows_private_addresses=True,
        last_error=REFUSED,
        next_retry_at=timezone.now(),
    )
    catalogue = offered(owner)
    assert "box_echo" in catalogue
    assert catalogue.missing == ()
    assert Service.objects.get().state == "connected"


def test_before_its_time_nothing_is_sent_to_a_failing_service(
    owner: Member, toolbox_served: Served
) -> None:
    soon = timezone.now() + timedelta(minutes=1)
    a_service(
        "box",
        url=toolbox_served.url,
        allows_private_addresses=True,
        last_error=REFUSED,
        next_retry_at=soon,
    )
    assert offered(owner).missing == (("box", "Nothing answers there."),)
    assert toolbox_served.arrivals.seen == []


def test_a_retry_in_a_turn_that_fails_leaves_it_missing(owner: Member) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        a_service(
            "gone",
            url=f"http://127.0.0.1:{taken.getsockname()[1]}/mcp",
            allows_private_addresses=True,
            last_error=REFUSED,
            next_retry_at=timezone.now(),
        )
        catalogue = offered(owner)
    assert [name for name, _reason in catalogue.missing] == ["gone"]
    assert Service.objects.get().retries == 1


def test_tools_of_a_service_to_which_one_has_yet_to_sign_in_are_offered_as_known(
    owner: Member,
) -> None:
    """The first call of one is what asks for the sign-in."""
    a_service("vault", authentication="oauth_user", tools_fresh_until=None)
    catalogue = offered(owner)
    assert list(catalogue) == ["vault_list"]
    assert catalogue.missing == ()


def test_without_known_tools_the_missing_sign_in_is_said(owner: Member) -> None:
    service = a_service("vault", authentication="oauth_user", tools_fresh_until=None)
    service.definitions.all().delete()
    ((name, reason),) = offered(owner).missing
    assert (name, "sign-in" in reason) == ("vault", True)
    assert Service.objects.get().last_error is None


def test_a_shared_sign_in_that_nobody_made_leaves_the_service_out(owner: Member) -> None:
    a_service("vault", authentication="oauth_shared", tools_fresh_until=None)
    catalogue = offered(owner)
    assert not catalogue
    assert [name for name, _reason in catalogue.missing] == ["vault"]


def test_a_listing_names_the_person_to_the_service(owner: Member, toolbox_served: Served) -> None:
    service = a_service(
        "box",
        url=toolbox_served.url,
        allows_private_addresses=True,
        authentication="headers",
        tools_fresh_until=None,
    )
    credentials.set_headers(service, {"X-Who": "{user.username} in {conversation.id}"})
    assert "box_echo" in offered(owner)
    assert {one.headers["x-who"] for one in toolbox_served.arrivals.seen} == {"owner in c-1"}


@pytest.mark.parametrize("visibility", ["private", "groups"])
def test_a_stranger_is_offered_nothing_of_a_service_that_is_not_for_them(
    owner: Member, stranger: Member, visibility: str
) -> None:
    service = a_service("memos", owner=owner, visibility=visibility)
    service.groups.add(Group.objects.create(name="team"))
    assert list(offered(owner)) == ["memos_list"]
    assert offered(stranger) == Catalogue()


def test_to_a_stranger_a_service_is_as_if_it_did_not_exist(owner: Member, stranger: Member) -> None:
    a_service("memos", owner=owner, visibility="private", last_error=REFUSED)
    named = offered(stranger, ["memos"])
    assert named.notices == ("There is no service named “memos”.",)
    assert named.missing == ()
    assert find_unknown_services(stranger, ["memos", "nothing"]) == ["memos", "nothing"]
    assert find_unknown_services(owner, ["memos", "nothing"]) == ["nothing"]
