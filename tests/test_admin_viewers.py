"""A sweep over every form, button and action of the admin by admins who may only look: one with all
permissions to view and nothing else, and an auditor. They send what a full admin would send, so
that no missing check is hidden by a form that is refused for its values."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Permission
from django.db.models import Model
from django.test import Client

from chatapp.admin.people.access_tokens import AccessTokenAdmin
from chatapp.admin.services.services import ChatServiceAdmin
from chatapp.audit import chat_access
from chatapp.models import AccessToken, Member, ToolLimit
from chatapp.server.database import close_threads
from mcpconfig.models import Service

from .conftest import make_recent, signed_in
from .route_world import World, build_world
from .test_admin_log import ACTS, Act, list_models, list_standard_acts, prepare
from .test_routes import Watch, admin_pages, report, watched_rows

pytestmark = [
    pytest.mark.gate,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("no_logging"),
]
# What each admin may do about themselves, and what a right to read opens: both are in the log.
OPEN_TO_ALL = {"hide_need", "logout", "password_change"}
OPENED_BY_VIEWING = {
    "chatapp_conversation_open": "asks for the reason before a chat is read",
    "chatapp_conversation_evidence": "reads a chat after a reason",
    "mcpconfig_service_export": "has no secrets",
}
VIEWING_ACTIONS = {(Service, "export_chosen")}
REFUSED = (403, 404, 405)


@pytest.fixture
def world(
    transactional_db: None, owner: Member, stranger: Member, admin: Member, settings: Any
) -> Iterator[World]:
    settings.PUBLIC_URL = "https://chat.example"
    built = build_world(owner, stranger, admin)
    chat_access.open_chat(admin, built.ids["chat"], "To look at it.")
    yield built
    close_threads()


def make_viewer() -> Member:
    """An admin with every permission to view, as somebody stored them by hand."""
    viewer = Member.objects.create_user("viewer", password="a-long-password", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    return viewer


def make_auditor() -> Member:
    return Member.objects.create_user(
        "auditor", password="a-long-password", is_staff=True, rights=["audit"]
    )


PEOPLE = {"viewer": make_viewer, "auditor": make_auditor}


def open_client(person: Member) -> Client:
    client = make_recent(signed_in(person))
    client.raise_request_exception = False
    return client


def failures_of_acts(world: World, person: Member, chosen: Iterable[Act] = ACTS) -> list[str]:
    """Each form of an own page that is not refused, or changes something."""
    failures: list[str] = []
    client = open_client(person)
    addresses = dict(reversed(list(admin_pages(world))))
    left_out = {*OPEN_TO_ALL, *OPENED_BY_VIEWING}
    with watched_rows() as watch:
        for act in chosen:
            if act.page not in left_out:
                address, typed = prepare(world, act, addresses[act.page])
                watch.changed_tables()  # what the test added is no change
                answer = client.post(address, typed)
                failures += find_failure(f"{person}: {act}", answer, watch)
    return failures


def find_failure(what: str, answer: Any, watch: Watch) -> Iterator[str]:
    if answer.status_code not in REFUSED:
        yield f"{what}: {answer.status_code}"
    for table in watch.changed_tables():
        yield f"{what}: changes {table}"


def failures_of_forms(
    world: World, person: Member, models: Iterable[type[Model]] | None = None
) -> list[str]:
    """Each form or action of a list that changes something. A list answers an action that it does
    not offer with itself."""
    failures: list[str] = []
    client = open_client(person)
    with watched_rows() as watch:
        for model in models or list_models():
            for name, _kind, do in list_standard_acts(model, world, client):
                if (model, name) in VIEWING_ACTIONS:
                    continue
                watch.changed_tables()
                answer, what = do(), f"{person}: {name} of {model._meta.label}"
                failures += [f"{what}: changes {table}" for table in watch.changed_tables()]
                is_form = name in ("add", "change", "delete")
                if is_form and answer.status_code not in REFUSED:
                    failures.append(f"{what}: {answer.status_code}")
    return failures


@pytest.mark.parametrize("who", list(PEOPLE))
def test_who_may_only_view_is_refused_every_form_of_an_own_page(world: World, who: str) -> None:
    report(failures_of_acts(world, PEOPLE[who]()))


@pytest.mark.parametrize("who", list(PEOPLE))
def test_who_may_only_view_changes_nothing_by_lists_and_forms(world: World, who: str) -> None:
    report(failures_of_forms(world, PEOPLE[who]()))


def test_a_viewer_opens_the_lists_of_everything(world: World) -> None:
    """Else the refusals would show nothing."""
    client = open_client(make_viewer())
    for name, address in admin_pages(world):
        if name.endswith("_changelist"):  # that of the one policy leads to its page
            assert client.get(address, follow=True).status_code == 200, name


# --- planted faults ------------------------------------------------------------------------------
def test_a_button_that_asks_for_no_right_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatServiceAdmin, "has_change_permission", lambda *_a, **_k: True)
    (act,) = (each for each in ACTS if each.page == "mcpconfig_service_switch")
    found = failures_of_acts(world, make_viewer(), [act])
    assert "viewer: mcpconfig_service_switch  service.changed: changes mcpconfig.Service" in found


def test_an_action_that_asks_for_no_right_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AccessTokenAdmin, "has_revoke_permission", lambda *_: True)
    found = failures_of_forms(world, make_auditor(), [AccessToken])
    assert any(
        "revoke of chatapp.AccessToken: changes chatapp.AccessToken" in each for each in found
    )


def test_a_form_that_asks_for_no_right_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = django_admin.site._registry[ToolLimit]
    monkeypatch.setattr(pages, "has_delete_permission", lambda *_a, **_k: True)
    found = failures_of_forms(world, make_viewer(), [ToolLimit])
    assert any("delete of chatapp.ToolLimit: 302" in each for each in found)
