"""A sweep over every address and action of the admin, by an admin with each right alone: what the
right does not name is refused, and an auditor changes nothing."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin as django_admin
from django.db.models import Model
from django.test import Client
from django.urls import get_resolver

from chatapp.admin.people.access_tokens import AccessTokenAdmin
from chatapp.models import AccessToken, HousePolicy, Invitation, Member, Trial
from chatapp.people.admin_rights import RIGHTS
from chatapp.server.database import close_threads
from mcpconfig.models import ToolDefinition

from .conftest import signed_in
from .route_world import MARK, World, build_world
from .test_routes import (
    STANDARD_ADMIN_PAGES,
    Watch,
    addresses,
    admin_pages,
    content_of,
    is_for_all_admins,
    report,
    watched_rows,
)

pytestmark = [
    pytest.mark.gate,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("no_logging"),
]

SERVICES_OF_CREDENTIALS = ("sign_ins", "revoke", "forget_registration")
# What every right to view services and tools opens. The pages have no buttons then.
READ_SERVICES = {"mcpconfig_service_export", "mcpconfig_service_status", "mcpconfig_service_tools"}
READ_PEOPLE_OF_SERVICES = {"mcpconfig_service_people", "mcpconfig_service_sign_ins"}
# What each right opens of the pages that belong to no row of a model: their names.
OWN_PAGES: dict[str, set[str]] = {
    "services": {
        *(f"mcpconfig_service_{name}" for name in ("health", "export", "test", "retry")),
        *(f"mcpconfig_service_{name}" for name in ("fetch_tools", "confirm_tools", "tools")),
        *(f"mcpconfig_service_{name}" for name in ("connect", "status", "switch", "unused")),
        *(f"mcpconfig_service_{name}" for name in ("review_tools", "act_on_tools")),
        *(f"mcpconfig_service_{name}" for name in ("try", "trial", "trial_content")),
        *(f"mcpconfig_service_{name}" for name in ("resources", "prompts", "prompt", "sign_ins")),
    },
    "credentials": {
        *READ_SERVICES,
        *(f"mcpconfig_service_{name}" for name in SERVICES_OF_CREDENTIALS),
    },
    "policy": {
        *("policy_simulator", "policy_questions", "policy_who_can", "policy_as_person"),
        *("chatapp_member_person", "chatapp_member_things"),
        *READ_SERVICES,
        *READ_PEOPLE_OF_SERVICES,
    },
    "people": {
        *("chatapp_member_person", "chatapp_member_things", "chatapp_member_off_board"),
        "auth_user_password_change",
    },
    "traces": {"mcpconfig_exchange_operation"},
    "models": {
        *(f"chatapp_modelprovider_{name}" for name in ("tools", "look", "add_server", "test")),
        *("chatapp_modelprovider_fetch", "chatapp_modelprovider_answer"),
        "chatapp_embeddingsettings_test",
        *("mcpconfig_service_export", "mcpconfig_service_status"),
    },
    "system": {"checks", "system", "system_settings", "system_keys"},
    "chats": {"chatapp_conversation_open", "chatapp_conversation_evidence"},
    "audit": {
        *("policy_simulator", "policy_questions", "policy_who_can", "policy_as_person"),
        *("chatapp_member_person", "chatapp_member_things", "mcpconfig_service_changes"),
        *READ_SERVICES,
        *READ_PEOPLE_OF_SERVICES,
    },
}
# An auditor may download these, and the log has each download.
DOWNLOADS = {"mcpconfig_service_export", "export_chosen"}
# Pages that lead to others, after a check of their own.
GENERAL = {"app_list", "autocomplete", "view_on_site"}
# Pages that some things never have, whatever the right.
CLOSED = {"add", "delete", "history"}
# Their rows are in lists of other rights as well; the pages show what was said in a chat.
OF_CHATS = {"chatapp_turn_change", "chatapp_approval_change"}


@pytest.fixture
def world(
    transactional_db: None, owner: Member, stranger: Member, admin: Member, settings: Any
) -> Iterator[World]:
    settings.PUBLIC_URL = "https://chat.example"
    yield build_world(owner, stranger, admin)
    close_threads()


def make_admin(*rights: str) -> Member:
    return Member.objects.create_user(
        "-".join(rights) or "clerk", password="a-long-password", is_staff=True, rights=list(rights)
    )


def client_of(person: Member) -> Client:
    client = signed_in(person)
    client.raise_request_exception = False
    return client


def may_open(right: str, name: str) -> bool:
    """Whether this right opens the page, by the table above and by the permissions in the right."""
    app, _, rest = name.partition("_")
    if name.startswith("django_tasks_database"):
        app, rest = "django_tasks_database", name.removeprefix("django_tasks_database_")
    model, _, page = rest.rpartition("_")
    if not model or page not in STANDARD_ADMIN_PAGES or model.endswith("password"):
        return name in OWN_PAGES[right]
    acts: dict[str, tuple[str, ...]] = {
        "changelist": ("view", "change"),
        "change": ("view", "change"),
    }
    acts |= {"history": ("view", "change"), "add": ("add",), "delete": ("delete",)}
    granted = RIGHTS[right].permissions
    return any(f"{app}.{act}_{model}" in granted for act in acts[page])


def failures_of(world: World, right: str, part: str = "") -> list[str]:
    """The pages that this admin opens without a right to them, or changes something on; only
    those whose names begin with `part`."""
    client = client_of(make_admin(right))
    failures = []
    with watched_rows() as watch:
        for name, address in admin_pages(world):
            if is_for_all_admins(name) or name in GENERAL or may_open(right, name):
                continue
            if not name.startswith(part):
                continue
            for method in ("GET", "POST"):
                answer = client.generic(method, address)
                what = f"{method} {address} ({name}) with “{right}”"
                if answer.status_code not in (403, 404, 405):
                    failures.append(f"{what}: {answer.status_code}")
                if MARK.encode() in content_of(answer):
                    failures.append(f"{what}: shows something of the owner's")
                failures += writes(watch, what)
    return failures


def writes(watch: Watch, what: str) -> list[str]:
    return [f"{what}: changes {table}" for table in watch.changed_tables()]


def list_actions(model: type[Model]) -> Iterable[str]:
    """The names of all actions of the list of this model."""
    found = django_admin.site._registry[model]
    yield from ("delete_selected", *(str(each) for each in found.actions or ()))


def failures_of_an_auditor(world: World, part: str = "") -> list[str]:
    """Everything that an auditor changes by a form or an action of any page of the admin; only
    pages whose names begin with `part`."""
    client = client_of(make_admin("audit"))
    failures = []
    with watched_rows() as watch:
        for name, address in admin_pages(world):
            if is_for_all_admins(name) or not name.startswith(part):
                continue
            for data in ({}, {"post": "yes", "_save": "1", "reason": "x", "chats": "keep"}):
                client.post(address, data)
                found = writes(watch, f"POST {address} ({name})")
                failures += [] if name in DOWNLOADS and is_entry_only(found) else found
        for model in django_admin.site._registry:
            row = model._base_manager.first()
            meta = model._meta
            address = f"/admin/{meta.app_label}/{meta.model_name}/"
            if not f"{meta.app_label}_{meta.model_name}".startswith(part):
                continue
            for action in list_actions(model) if row is not None else ():
                form = {
                    "action": action,
                    "_selected_action": [getattr(row, "pk", None)],
                    "post": "yes",
                }
                client.post(address, form)
                found = writes(watch, f"{action} on {address}")
                failures += [] if action in DOWNLOADS and is_entry_only(found) else found
    return failures


def is_entry_only(found: list[str]) -> bool:
    return all(each.endswith("changes chatapp.LogEntry") for each in found)


@pytest.mark.parametrize("right", list(RIGHTS))
def test_a_right_opens_nothing_that_it_does_not_name(world: World, right: str) -> None:
    report(failures_of(world, right))


@pytest.mark.long
def test_a_right_opens_what_it_names(world: World) -> None:
    """Else the refusals would show nothing."""
    failures = []
    for right in RIGHTS:
        client = client_of(make_admin(right))
        for name, address in admin_pages(world):
            if not name or is_for_all_admins(name) or not may_open(right, name):
                continue
            status, page = client.get(address).status_code, name.rpartition("_")[2]
            expected = {200, 302, 405}
            if name in OF_CHATS and right != "chats":
                expected = {403}
            elif page in CLOSED:
                expected |= {403}
            if status not in expected:
                failures.append(f"{address} ({name}) with “{right}”: {status}")
    report(failures)


def test_an_auditor_changes_nothing_anywhere(world: World) -> None:
    report(failures_of_an_auditor(world))


def test_each_thing_in_the_admin_belongs_to_a_right() -> None:
    granted = {name for right in RIGHTS.values() for name in right.permissions}
    for model in django_admin.site._registry:
        meta = model._meta
        assert f"{meta.app_label}.view_{meta.model_name}" in granted, (
            f"Add {meta.label} to a right in chatapp/people/admin_rights.py."
        )


def test_each_permission_in_a_right_exists() -> None:
    """A misspelt one would silently give nothing."""
    known = {
        f"{model._meta.app_label}.{act}_{model._meta.model_name}"
        for model in apps.get_models()
        for act in model._meta.default_permissions
    }
    known |= {"chatapp.view_checks"}
    for right in RIGHTS.values():
        assert right.permissions <= known, right.permissions - known


def test_the_rooms_of_this_table_are_addresses() -> None:
    known = {each.name for each in addresses(get_resolver()) if each.namespace == "admin"}
    listed = {name for names in OWN_PAGES.values() for name in names}
    assert listed | GENERAL <= known


# --- planted faults ------------------------------------------------------------------------------
def test_an_action_that_asks_for_no_right_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AccessTokenAdmin, "has_revoke_permission", lambda *_: True)
    assert AccessToken.objects.exists()
    found = failures_of_an_auditor(world, "chatapp_accesstoken")
    assert any(each.startswith("revoke on /admin/chatapp/accesstoken/") for each in found)


def test_a_page_that_asks_for_no_right_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = django_admin.site._registry[Trial]
    monkeypatch.setattr(registered, "has_view_permission", lambda *_a, **_k: True)
    found = failures_of(world, "system", "chatapp_trial")
    assert any("/admin/chatapp/trial/" in each and each.endswith(": 200") for each in found)
    assert {HousePolicy, Invitation, ToolDefinition} <= set(django_admin.site._registry)
