"""The form of a service in the admin: its sections, what it refuses, and what it leaves alone."""

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import override

from chatapp.models import Member
from mcpconfig.admin.tools import PagedFormSet
from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials
from mcpconfig.services import tool_definitions
from mcpconfig.services.service_form import ServiceForm
from mcpconfig.values.results import Tool
from tests.peers.hostile import Hostile
from tests.peers.serving import Served

from .test_service_admin import CANARY, add, change, press

pytestmark = pytest.mark.timeout(30)

REFUSED = {
    "kind": "refused",
    "message": "Nothing answers there.",
    "hint": "",
    "at": "2026-11-21T20:00:00+00:00",
}


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    found: dict[str, list[str]] = response.context["adminform"].form.errors
    return found


def page_of(client: Client, service: Service) -> str:
    url = reverse("admin:mcpconfig_service_change", args=[service.pk])
    return str(client.get(url).content.decode())


def a_service(**fields: Any) -> Service:
    return Service.objects.create(**{"name": "one", "url": "https://one.example/mcp"} | fields)


def read_form(response: Any) -> dict[str, str]:
    """Return what the form of the page would post."""
    form = BeautifulSoup(response.content, "html.parser").select_one("#service_form")
    assert form is not None
    values = {}
    for field in form.select("[name]:not([name*=__prefix__]):not([type=submit])"):
        is_box = field.get("type") == "checkbox"
        if field.name == "select":
            chosen = field.select_one("option[selected]")
            values[str(field["name"])] = str(chosen["value"]) if chosen else ""
        elif field.name == "textarea":
            values[str(field["name"])] = field.text.removeprefix("\n")
        elif not is_box or field.has_attr("checked"):
            values[str(field["name"])] = str(field.get("value", "on" if is_box else ""))
    return values


def test_a_service_added_by_hand_is_for_admins_until_one_chooses(
    admin_client: Client, owner: Member, admin: Member
) -> None:
    address = reverse("admin:mcpconfig_service_add")
    fields = read_form(admin_client.get(address))
    assert fields["visibility"] == "private"
    fields |= {"name": "one", "url": "https://one.example/mcp"}
    del fields["visibility"]
    assert "visibility" in errors_of(admin_client.post(address, fields))
    admin_client.post(address, fields | {"visibility": "private"})
    service = Service.objects.get()
    assert (service.visibility, service.owner) == ("private", None)
    assert not Service.objects.for_member(owner).exists()
    assert Service.objects.for_member(admin).exists()


def test_the_form_is_in_sections(admin_client: Client) -> None:
    page = page_of(admin_client, a_service())
    headings = [text for text in _headings(page) if text in SECTIONS]
    assert headings == SECTIONS


SECTIONS = ["Service", "Address", "Sign-in", "Who has access", "Behaviour", "Status"]


def _headings(page: str) -> list[str]:
    return [
        heading.text.strip() for heading in BeautifulSoup(page, "html.parser").select("fieldset h2")
    ]


def test_what_is_typed_is_stored(admin_client: Client, owner: Member) -> None:
    team = Group.objects.create(name="team")
    response = add(
        admin_client,
        icon="📚",
        colour="blue",
        visibility="groups",
        groups=[team.pk],
        owner=owner.pk,
        most_retries=2,
        authentication="oauth_user",
        client_id="an-id",
        client_secret=CANARY,
        scopes="tools admin",
    )
    assert response.status_code == 302
    service = Service.objects.get()
    assert (service.icon, service.colour, service.owner) == ("📚", "blue", owner)
    assert list(service.groups.all()) == [team]
    assert (service.client_id, service.scopes, service.most_retries) == (
        "an-id",
        "tools admin",
        2,
    )
    assert credentials.load_client_secret(service) == CANARY
    page = page_of(admin_client, service)
    assert CANARY not in page
    assert "ends in 6789" in page


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"icon": "<b>"}, "icon"),
        ({"visibility": "groups"}, "groups"),
        ({"most_retries": 11}, "most_retries"),
        ({"authentication": "headers", "headers": "X-Who: {user.password}"}, "headers"),
        ({"authentication": "headers", "headers": "Host: elsewhere"}, "headers"),
        ({"authentication": "bearer", "bearer": "two words"}, "bearer"),
        ({"authentication": "client_credentials", "client_id": "an-id"}, "client_secret"),
        ({"authentication": "client_credentials", "client_secret": "x" * 20}, "client_id"),
    ],
)
def test_what_cannot_work_is_refused_at_its_field(
    admin_client: Client, changes: dict[str, Any], field: str
) -> None:
    assert list(errors_of(add(admin_client, **changes))) == [field]
    assert not Service.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"allows_private_addresses": "on"}, "allows_private_addresses"),
        ({"url": "builtin:notebook"}, "owner"),
        ({"url": "http://one.example/mcp", "allows_private_addresses": "on"}, "url"),
    ],
)
def test_a_persons_service_leads_nowhere_inside(
    admin_client: Client, owner: Member, changes: dict[str, Any], field: str
) -> None:
    assert field in errors_of(add(admin_client, owner=owner.pk, **changes))
    assert not Service.objects.exists()


def test_an_admins_service_may_lead_inside(admin_client: Client, admin: Member) -> None:
    changes = {"url": "http://10.0.0.1/mcp", "allows_private_addresses": "on", "owner": admin.pk}
    assert add(admin_client, **changes).status_code == 302


def test_saving_leaves_alone_what_was_learned_since_the_form_was_shown(
    admin_client: Client,
) -> None:
    service = a_service()
    form = {"title": "Renamed"}
    Service.objects.update(known_era="2026-07-28", last_success_at=timezone.now())

    assert change(admin_client, service, **form).status_code == 302

    service.refresh_from_db()
    assert (service.title, service.known_era, service.state) == (
        "Renamed",
        "2026-07-28",
        "connected",
    )


def test_a_change_may_be_the_cure_so_the_failure_does_not_stand(admin_client: Client) -> None:
    service = a_service(last_error=REFUSED, retries=5)
    change(admin_client, service)
    service.refresh_from_db()
    assert (service.state, service.retries) == ("configured", 0)


def test_changing_what_the_service_is_keeps_its_secrets(admin_client: Client) -> None:
    service = a_service(authentication="bearer")
    credentials.set_bearer(service, CANARY)
    change(admin_client, service, authentication="bearer", icon="W", colour="red")
    stored = Credential.objects.get(service=service)
    service.refresh_from_db()
    assert credentials.load_request_headers(service, stored) == {
        "authorization": f"Bearer {CANARY}"
    }


def test_a_failing_service_shows_its_next_try_and_a_button(admin_client: Client) -> None:
    service = a_service(last_error=REFUSED, retries=2, next_retry_at=timezone.now())
    page = page_of(admin_client, service)
    assert "2 of 5 retries made" in page
    assert "Nothing answers there. (21 Nov 2026, 20:00:00)" in page
    assert "Retry now" in page


def test_a_service_that_is_given_up_says_that_a_person_must_retry(admin_client: Client) -> None:
    service = a_service(last_error=REFUSED, retries=5)
    page = page_of(admin_client, service)
    assert "No automatic retry: 5 of 5 retries made. Retry by hand." in page
    assert "No automatic retry." in page


def test_a_service_that_is_being_added_has_no_history(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:mcpconfig_service_add")).content.decode()
    assert [text for text in _headings(page) if text in SECTIONS] == SECTIONS[:-1]


def test_a_service_that_does_well_has_nothing_to_retry(admin_client: Client) -> None:
    assert "Retry now" not in page_of(admin_client, a_service())


def test_retry_now_says_that_it_works_again(admin_client: Client, modern: Served) -> None:
    service = a_service(
        url=modern.url, allows_private_addresses=True, last_error=REFUSED, retries=5
    )
    assert "The service works again" in press(admin_client, "retry", service)
    service.refresh_from_db()
    assert (service.state, service.retries) == ("connected", 0)


def test_retry_now_says_why_it_still_fails(admin_client: Client, hostile: Hostile) -> None:
    service = a_service(
        url=hostile.url("h500", at_once=True), allows_private_addresses=True, last_error=REFUSED
    )
    page = press(admin_client, "retry", service)
    assert "Retry failed" in page
    assert "HTTP 500" in page


def test_a_stranger_cannot_retry(stranger_client: Client, stranger: Member) -> None:
    service = a_service(last_error=REFUSED, retries=5)
    url = reverse("admin:mcpconfig_service_retry", args=[service.pk])
    assert stranger_client.post(url).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.post(url).status_code == 403
    assert stranger_client.get(url).status_code in (403, 405)
    service.refresh_from_db()
    assert service.retries == 5


def test_a_failed_test_shows_its_steps(admin_client: Client, hostile: Hostile) -> None:
    service = a_service(url=hostile.url("h404", at_once=True), allows_private_addresses=True)
    rows = BeautifulSoup(press(admin_client, "test", service), "html.parser").select(
        ".service-failure th"
    )
    names = [row.text.strip() for row in rows]
    assert names[:3] == ["Address", "Sign-in when connecting", "Sign-in at the first call"]
    assert names[-2:] == ["Streamable HTTP", "HTTP+SSE"]


def test_the_admin_at_the_button_is_the_one_who_acts(admin_client: Client, modern: Served) -> None:
    service = a_service(url=modern.url, allows_private_addresses=True, authentication="headers")
    credentials.set_headers(service, {"X-Who": "{user.username}"})

    assert "The connection works" in press(admin_client, "test", service)
    press(admin_client, "fetch_tools", service)

    told = [one.headers.get("x-who") for one in modern.arrivals.seen]
    assert set(told) == {"admin", None}  # None: the test also comes as a stranger


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_required_secret_that_is_missing_is_refused_in_every_language(
    admin_client: Client, language: str
) -> None:
    service = a_service()
    with override(language):
        form = ServiceForm(
            {"name": "one", "url": service.url, "authentication": "bearer"}, instance=service
        )
        assert "bearer" in form.errors
        credentials.set_bearer(service, CANARY)
        again = ServiceForm(
            {"name": "one", "url": service.url, "authentication": "bearer"}, instance=service
        )
        assert "bearer" not in again.errors


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"visibility": "everyone"}, "Every member"),
        ({"visibility": "groups"}, "Members of certain groups"),
        ({"visibility": "private"}, "Admins"),
    ],
)
def test_the_list_says_for_whom_a_service_is(
    admin_client: Client, fields: dict[str, Any], shown: str
) -> None:
    a_service(**fields)
    page = admin_client.get(reverse("admin:mcpconfig_service_changelist")).content.decode()
    (cell,) = BeautifulSoup(page, "html.parser").select("td.field-seen_by")
    assert cell.text.strip() == shown


def test_the_form_leads_to_the_current_tools(admin_client: Client) -> None:
    service = a_service()
    tool_definitions.store_tools(service, [Tool(name="find", input_schema={"type": "object"})])
    page = BeautifulSoup(page_of(admin_client, service), "html.parser")
    (link,) = page.select(".field-current_tools a")
    assert link.text == "1 tool"
    assert "find" in admin_client.get(str(link["href"])).content.decode()


def test_the_settings_of_many_tools_are_on_several_pages(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form of a page changes the settings of that page, and no others."""
    monkeypatch.setattr(PagedFormSet, "per_page", 2)
    service = a_service()
    for name in ("a", "c", "b"):
        service.settings.create(name=name, level="high")
    url = reverse("admin:mcpconfig_service_change", args=[service.pk])

    first, second = (read_form(admin_client.get(url, {"page": page})) for page in (1, 2))

    assert [first[f"settings-{number}-name"] for number in range(2)] == ["a", "b"]
    assert second["settings-0-name"] == "c" and "settings-2-id" not in second
    # Others may have been added meanwhile, which moves the last one to another page.
    for name in ("aa", "ab"):
        service.settings.create(name=name, level="high")
    answer = admin_client.post(f"{url}?page=2", {**second, "settings-0-level": "low"})
    assert answer.status_code == 302
    levels = dict(service.settings.values_list("name", "level"))
    assert levels == {"a": "high", "aa": "high", "ab": "high", "b": "high", "c": "low"}


def test_a_setting_of_a_tool_that_another_page_has_is_refused(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PagedFormSet, "per_page", 1)
    service = a_service()
    for name in ("a", "b"):
        service.settings.create(name=name)
    url = reverse("admin:mcpconfig_service_change", args=[service.pk])
    posted = {**read_form(admin_client.get(url)), "settings-1-name": "b"}
    answer = admin_client.post(url, posted)
    assert answer.status_code == 200
    assert "already has settings for this tool" in answer.content.decode()
    assert service.settings.count() == 2
