"""The page of all services: what is known of each, what needs somebody, and trying it at once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.models import Member
from mcpconfig.models import Exchange, OAuthGrant, Service, ToolDefinition, ToolSetting
from mcpconfig.services import status, tool_definitions
from mcpconfig.services.health import Health, list_health
from mcpconfig.values.errors import OperationError
from tests.dom_tree import Element, parse
from tests.peers.serving import Served

pytestmark = pytest.mark.timeout(30)
PAGE = "/admin/mcpconfig/service/health/"


def failed(**said: Any) -> dict[str, Any]:
    at = timezone.now().isoformat()
    about = {"kind": "refused", "message": "Nothing answers.", "hint": "Look there.", "at": at}
    return about | said


def make(name: str, **fields: Any) -> Service:
    return Service.objects.create(name=name, url=f"https://{name}.example/mcp", **fields)


def offers(service: Service, *names: str, confirmed: tuple[str, ...] = ()) -> None:
    for name in names:
        ToolDefinition.objects.create(service=service, name=name, hash=f"hash of {name}")
        if name in confirmed:
            ToolSetting.objects.create(service=service, name=name, confirmed_hash=f"hash of {name}")


def health(name: str) -> Health:
    return next(each for each in list_health() if each.service.name == name)


def rows(client: Client) -> dict[str, Element]:
    page = parse(client.get(PAGE).content.decode())
    return {row.one("th", scope="row").one("a").text: row for row in page.one("tbody").all("tr")}


def test_what_fails_comes_first_then_what_needs_somebody(admin: Member) -> None:
    make("a")
    offers(make("b"), "look")
    make("c", last_error=failed())
    assert [each.service.name for each in list_health()] == ["c", "b", "a"]
    assert [each.needs_attention for each in list_health()] == [True, True, False]


def test_each_service_that_needs_somebody_is_marked(admin_client: Client) -> None:
    make("a")
    offers(make("b"), "look")
    marked = {name: "Needs attention" in row.text for name, row in rows(admin_client).items()}
    assert marked == {"a": False, "b": True}


def test_tools_are_counted_as_they_are_now() -> None:
    service = make("a")
    offers(service, "look", "find", "erase", confirmed=("look",))
    ToolSetting.objects.create(service=service, name="erase", is_enabled=False)
    ToolSetting.objects.create(service=service, name="find", confirmed_hash="an older hash")
    ToolDefinition.objects.create(service=service, name="gone", hash="x", is_current=False)
    offers(make("other"), "find")

    found = health("a")

    assert (found.tools, found.unconfirmed, found.needs_attention) == (3, 1, True)


def grant(service: Service, person: Member | None, **fields: Any) -> None:
    OAuthGrant.objects.create(
        service=service, person=person, endpoint=service.url, access=b"x", **fields
    )


@pytest.mark.parametrize(
    ("authentication", "is_dead", "needed"),
    [
        ("none", None, ""),
        ("oauth_user", None, ""),
        ("oauth_user", False, ""),
        ("oauth_user", True, "1 of 2 members need to sign in again"),
        ("oauth_shared", None, "an admin needs to sign in for all members"),
        ("oauth_shared", False, ""),
        ("oauth_shared", True, "an admin needs to sign in again"),
    ],
)
def test_who_has_to_sign_in(
    owner: Member, admin: Member, authentication: str, is_dead: bool | None, needed: str
) -> None:
    service = make("a", authentication=authentication)
    if is_dead is not None and authentication == "oauth_user":
        grant(service, owner, is_dead=is_dead)
        grant(service, admin)
    elif is_dead is not None:
        grant(service, None, is_dead=is_dead)
    assert health("a").sign_ins_needed == needed


def test_a_service_that_is_off_needs_nobody(owner: Member) -> None:
    service = make("a", is_enabled=False, authentication="oauth_user", last_error=failed())
    offers(service, "look")
    grant(service, owner, is_dead=True)
    assert not health("a").needs_attention


def test_the_page_costs_the_same_whatever_the_number_of_services(
    admin_client: Client, django_assert_num_queries: Any
) -> None:
    for number in range(12):
        offers(make(f"s{number}", authentication="oauth_user"), "look", "find")
    with django_assert_num_queries(3):
        list_health()


def test_since_when_it_fails_outlives_later_failures() -> None:
    service = make("a")
    error = OperationError(kind="refused", message="Nothing answers.")
    async_to_sync(status.record_failure)(service, "list_tools", error, is_one_persons=False)
    service.refresh_from_db()
    assert service.last_error is not None
    first = (timezone.now() - timedelta(hours=5)).isoformat()
    Service.objects.update(last_error=service.last_error | {"since": first})
    service.refresh_from_db()

    async_to_sync(status.record_failure)(service, "list_tools", error, is_one_persons=False)

    service.refresh_from_db()
    assert service.last_error is not None
    assert service.last_error["since"] == first < service.last_error["at"]
    assert health("a").failing_since == datetime.fromisoformat(first)
    async_to_sync(status.record_success)(service)
    assert health("a").failing_since is None


def test_each_row_says_how_the_service_does(admin_client: Client) -> None:
    failing = failed(since=datetime(2026, 7, 28, 12, tzinfo=UTC).isoformat())
    make("broken", title="Broken", last_error=failing, retries=5)
    offers(make("fine", title="Fine", last_success_at=timezone.now()), "look")

    page = rows(admin_client)

    for words in ("Failing", "Nothing answers. Look there.", "Failing since 28 Jul 2026", "5 of 5"):
        assert words in page["Broken"].text
    for words in ("Connected", "Last worked", "1 tool", "1 not confirmed", "No sign-in needed"):
        assert words in page["Fine"].text
    assert page["Broken"].buttons() == ["Retry now Broken"]
    assert page["Fine"].buttons() == []
    assert not Exchange.objects.exists()


def test_what_a_service_said_is_never_markup(admin_client: Client) -> None:
    make("odd", last_error=failed(message="<b id=x>", hint="<script>"))
    html = admin_client.get(PAGE).content.decode()
    assert "<b id=x>" not in html and "<script>" not in html


def test_retry_now_leads_back_to_the_page(admin_client: Client, modern: Served) -> None:
    back = make("back", last_error=failed(), allows_private_addresses=True)
    Service.objects.filter(pk=back.pk).update(url=modern.url)
    gone = make("gone", last_error=failed(), allows_private_addresses=True)
    Service.objects.filter(pk=gone.pk).update(url="http://127.0.0.1:9/mcp")

    for service, said in ((back, "works again"), (gone, "still fails")):
        url = reverse("admin:mcpconfig_service_retry", args=[service.pk])
        answer = admin_client.post(url, {"health": "1"})
        assert answer.headers["Location"] == PAGE
        (told,) = get_messages(answer.wsgi_request)
        assert said in str(told)
        rows(admin_client)
    assert tool_definitions.list_current_tools(back)


def test_the_page_says_when_there_is_nothing_to_show(admin_client: Client) -> None:
    assert "No services yet." in admin_client.get(PAGE).content.decode()


def test_only_admins_see_it_and_the_overview_links_to_it(
    admin_client: Client, stranger: Member, stranger_client: Client
) -> None:
    for address in ("/admin/", reverse("admin:mcpconfig_service_changelist")):
        assert f'href="{PAGE}"' in admin_client.get(address).content.decode()
    assert stranger_client.get(PAGE).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(PAGE).status_code == 403
