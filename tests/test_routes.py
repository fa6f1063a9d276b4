"""A sweep over every address of Django's URLconf: `route_table.py` lists each, and only those whom
it names can open it. Sockets and the MCP faces are not in the URLconf; they have tests of their own
(see `route_table.py`).

A test sends all its requests and then reports every answer that is not as the table says.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.contrib import admin as django_admin
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template import defaultfilters
from django.test import Client
from django.urls import URLPattern, URLResolver, clear_url_caches, get_resolver, path, reverse

from chatapp import middleware, urls
from chatapp.audit import chat_access
from chatapp.models import (
    AccessToken,
    AnswerFeedback,
    Attachment,
    ChatModel,
    Conversation,
    Guidance,
    LogHead,
    Member,
    Memory,
    ModelProvider,
    Part,
    PolicyRule,
    PolicyTest,
    Summary,
    ToolCall,
)
from chatapp.server.database import close_threads
from chatapp.views import access
from mcpconfig.models import Service, ToolDefinition

from .chatapp.accounts.ldap_setting import configure
from .conftest import signed_in
from .markup_in_attributes import HOSTILE, find_markup_in_attributes
from .route_table import (
    ADMIN_PAGES,
    ADMIN_PAGES_WITHOUT_RIGHTS,
    ROUTES,
    Access,
    Route,
)
from .route_world import MARK, World, build_world

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("no_logging")]

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
READS = ("GET", "HEAD")
STANDARD_ADMIN_PAGES = ("changelist", "add", "change", "delete", "history")
SIGN_IN = "/sign-in/"
# A SAML provider's page posts here. Its signature takes the place of the token of a form.
FROM_OTHER_SITES = ("saml-acs",)

Rows = dict[tuple[str, object], tuple[object, ...]]


@pytest.fixture
def world(
    transactional_db: None, owner: Member, stranger: Member, admin: Member, settings: Any
) -> Iterator[World]:
    """Operations on services write from threads of their own, so no transaction is around them."""
    settings.PUBLIC_URL = "https://chat.example"  # only then is there a document about the client
    configure(settings, {}, id="directory")
    yield build_world(owner, stranger, admin)
    close_threads()


# --- requests ------------------------------------------------------------------------------------
def send(
    client: Client,
    world: World,
    name: str,
    method: str,
    *,
    unknown: str = "",
    token: str = "",
) -> Any:
    """Ask for this address as the table says; `unknown` is the word of the id that nothing has."""
    route = ROUTES[name]

    def ids(words: Mapping[str, str]) -> dict[str, object]:
        return {
            field: world.unknown(word) if word == unknown else world.ids[word]
            for field, word in words.items()
        }

    address = reverse(name, kwargs=ids(route.ids))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    client.raise_request_exception = False
    if method in READS:
        return client.generic(method, address, headers=headers)
    form = route.form(world)
    if isinstance(form, str):
        return client.generic(method, address, form, "application/json", headers=headers)
    if method == "POST":
        return client.post(address, {**form, **ids(route.form_ids)}, headers=headers)
    return client.generic(method, address, headers=headers)


def routes_with(*access: Access) -> list[tuple[str, Route]]:
    return [(name, route) for name, route in ROUTES.items() if route.access in access]


def requests_to(*access: Access) -> list[tuple[str, Route, str]]:
    """Each of these addresses by each of its methods."""
    return [
        (name, route, method)
        for name, route in routes_with(*access)
        for method in route.methods.split()
    ]


def token_for(route: Route, world: World) -> str:
    tokens = {Access.PROGRAM: world.token, Access.DIRECTORY: world.token_of_directory}
    return tokens.get(route.access, "")


def status_for_owner(route: Route, method: str) -> int:
    return route.get if method in READS else route.post


def status_for_others(route: Route, method: str) -> int:
    """A page of each member's own is there for all; but not for what somebody else's form names."""
    names_rows = route.access is Access.OWNER or (method == "POST" and route.form_ids)
    return route.stranger if names_rows else status_for_owner(route, method)


# --- what is stored ------------------------------------------------------------------------------
def stored_rows() -> Rows:
    """Every row of this project's tables. The end of the log is left out: every entry moves it."""
    models = (
        model
        for label in ("chatapp", "mcpconfig")
        for model in apps.get_app_config(label).get_models(include_auto_created=True)
        if model is not LogHead
    )
    return {
        (model._meta.label, row[0]): row
        for model in models
        for row in model._base_manager.values_list("pk", *(f.attname for f in model._meta.fields))
    }


class Watch:
    """Reports which tables changed. Reading all rows takes longer than most requests, so that is
    done only after a request with a statement that writes, and at the end."""

    def __init__(self) -> None:
        self.rows = stored_rows()
        self._has_written = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self._has_written |= sql.startswith(("INSERT", "UPDATE", "DELETE"))
        return execute(sql, params, many, context)

    def changed_tables(self, *, allows_new: bool = False, is_end: bool = False) -> list[str]:
        """The tables in which rows were changed or removed since the last look and, unless that is
        allowed, added."""
        if not (self._has_written or is_end):
            return []
        before, self.rows, self._has_written = self.rows, stored_rows(), False
        after = self.rows
        changed = {table for (table, pk), row in before.items() if after.get((table, pk)) != row}
        added = {table for table, pk in after.keys() - before.keys()}
        return sorted(changed if allows_new else changed | added)


@contextmanager
def watched_rows() -> Iterator[Watch]:
    watch = Watch()
    with connection.execute_wrapper(watch):
        yield watch


# --- what the table says -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Address:
    """An address of the URLconf. `route` is its pattern from the root on."""

    namespace: str
    name: str
    route: str


def addresses(resolver: URLResolver, namespace: str = "", route: str = "") -> Iterator[Address]:
    for each in resolver.url_patterns:
        here = route + str(each.pattern)
        if isinstance(each, URLPattern):
            yield Address(namespace, each.name or "", here)
        else:
            yield from addresses(each, namespace or each.namespace or "", here)


def unlisted_routes(resolver: URLResolver) -> list[str]:
    """A sentence for each address that nobody has said anything about."""
    return [
        f"“/{each.route}” ({each.name or 'without a name'}) is not in tests/route_table.py: add a "
        f"row to {'ADMIN_PAGES' if each.namespace else 'ROUTES'} that says who may open it."
        for each in addresses(resolver)
        if not is_listed(each)
    ]


def is_listed(address: Address) -> bool:
    if address.namespace == "admin":
        is_listed_page = address.name in ADMIN_PAGES or address.name in ADMIN_PAGES_WITHOUT_RIGHTS
        return is_listed_page or address.name in standard_admin_pages() or not address.name
    return not address.namespace and address.name in ROUTES


def standard_admin_pages() -> set[str]:
    """The names of the pages that Django makes for each thing in the admin."""
    return {
        f"{model._meta.app_label}_{model._meta.model_name}_{page}"
        for model in django_admin.site._registry
        for page in STANDARD_ADMIN_PAGES
    }


# --- the sweeps: each returns what is not as the table says ---------------------------------------
def failures_signed_out(world: World) -> list[str]:
    failures, client = [], Client()
    with watched_rows() as watch:
        for name, _route, method in requests_to(Access.MEMBER, Access.OWNER):
            answer, what = send(client, world, name, method), f"{method} {name}"
            if not leads_to_sign_in(answer):
                failures.append(f"{what}: {answer.status_code} instead of the sign-in page")
            failures += leaks(answer, what, watch)
        failures += changes("Who is signed out", watch, is_end=True)
    return failures


def failures_of_others(world: World, names: Iterable[str] = ROUTES) -> list[str]:
    """Somebody else, and an admin, with the ids of the owner."""
    failures, chosen = [], set(names)
    requests = [each for each in requests_to(Access.MEMBER, Access.OWNER) if each[0] in chosen]
    for who, person in world.people_without_rights().items():
        client = signed_in(person)
        with watched_rows() as watch:
            for name, route, method in requests:
                answer, what = send(client, world, name, method), f"{method} {name} by {who}"
                expected = status_for_others(route, method)
                if answer.status_code != expected:
                    failures.append(f"{what}: {answer.status_code} instead of {expected}")
                is_own_page = route.access is Access.MEMBER
                failures += leaks(answer, what, watch, allows_new=is_own_page)
                failures += copies(answer, what)
            failures += changes(who, watch, is_end=True)
    return failures


def leaks(answer: Any, what: str, watch: Watch, *, allows_new: bool = False) -> Iterator[str]:
    """What somebody got or changed of the owner's."""
    if MARK.encode() in content_of(answer):
        yield f"{what}: shows something of the owner's"
    yield from changes(what, watch, allows_new=allows_new)


def changes(what: str, watch: Watch, **how: bool) -> Iterator[str]:
    if tables := watch.changed_tables(**how):
        yield f"{what}: changes {', '.join(tables)}"


def copies(answer: Any, what: str, *, is_kept: bool = False) -> Iterator[str]:
    """An answer to a session that a cache may keep: page, error, redirect or file. With `is_kept`,
    one that only its browser keeps is as it should be."""
    kept = answer.get("Cache-Control", "")
    if is_kept and answer.status_code == 200 and "private" in kept:
        return
    if "no-store" not in kept:
        yield f"{what}: {answer.status_code} may be kept by a cache: {kept or 'nothing is said'}"


def content_of(answer: Any) -> bytes:
    return b"".join(answer) if answer.streaming else bytes(answer.content)


def leads_to_sign_in(answer: Any) -> bool:
    return bool(answer.status_code == 302 and answer["Location"].startswith(SIGN_IN))


def report(failures: Iterable[str]) -> None:
    found = list(failures)
    assert not found, "\n" + "\n".join(found)


# --- the table and the URLconf -------------------------------------------------------------------
def test_every_address_is_in_the_table() -> None:
    report(unlisted_routes(get_resolver()))


def test_every_row_of_the_table_is_an_address() -> None:
    known = {(each.namespace, each.name) for each in addresses(get_resolver())}
    listed = {("", name) for name in ROUTES}
    listed |= {("admin", name) for name in (*ADMIN_PAGES, *ADMIN_PAGES_WITHOUT_RIGHTS)}
    report(f"{name} is in the table, but has no address" for _, name in sorted(listed - known))


def test_an_address_that_nobody_listed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    use_urls(monkeypatch, path("unlisted/", answer_anybody, name="unlisted"))
    (sentence,) = unlisted_routes(get_resolver())
    assert sentence.startswith("“/unlisted/” (unlisted) is not in tests/route_table.py")


# --- people --------------------------------------------------------------------------------------
def test_who_is_signed_out_is_asked_to_sign_in_and_changes_nothing(world: World) -> None:
    report(failures_signed_out(world))


def test_a_stranger_finds_nothing_and_changes_nothing(world: World) -> None:
    report(failures_of_others(world))


def test_the_owner_gets_what_the_table_says(world: World) -> None:
    """Else the refusals of the other tests would show nothing."""
    failures, shown, client = [], set(), signed_in(world.owner)
    for name, route, method in requests_to(Access.MEMBER, Access.OWNER):
        answer, expected = send(client, world, name, method), status_for_owner(route, method)
        if answer.status_code != expected or expected == 404 or expected >= 500:
            failures.append(f"{method} {name}: {answer.status_code} instead of {expected}")
        if MARK.encode() in content_of(answer):
            shown.add(name)
        failures += copies(answer, f"{method} {name}", is_kept=route.is_kept)
    report(failures)
    assert len(shown) > 20, "The owner's texts are hardly shown, so nobody can be seen to see them."


def test_nothing_that_is_answered_to_a_session_is_kept_by_a_cache(world: World) -> None:
    """Public and unknown addresses; the sweeps above and of the admin look at all others."""
    failures: list[str] = []
    for who, person in {"the owner": world.owner, "a stranger": world.stranger}.items():
        client = signed_in(person)
        for name, _route, method in requests_to(Access.ANYBODY):
            answer = send(signed_in(person), world, name, method)
            failures += copies(answer, f"{method} {name} by {who}")
        failures += copies(client.get("/nowhere/"), f"an unknown address by {who}")
    report(failures)


def test_anybody_opens_what_is_public(world: World) -> None:
    failures = []
    for name, route, method in requests_to(Access.ANYBODY):
        answer, expected = send(Client(), world, name, method), status_for_owner(route, method)
        if answer.status_code != expected:
            failures.append(f"{method} {name}: {answer.status_code} instead of {expected}")
        if MARK.encode() in content_of(answer):
            failures.append(f"{method} {name}: shows something of the owner's")
    report(failures)


def test_an_id_that_nothing_has_is_not_found(world: World) -> None:
    failures, client = [], signed_in(world.owner)
    with watched_rows() as watch:
        for name, route, method in requests_to(*Access):
            who = Client() if route.access is Access.ANYBODY else client
            words = {*route.ids.values(), *(route.form_ids.values() if method == "POST" else ())}
            for word in sorted(words):
                answer = send(who, world, name, method, unknown=word, token=token_for(route, world))
                what = f"{method} {name} with an unknown {word}"
                expected = route.gone.get(word, route.unknown)
                if answer.status_code != expected:
                    failures.append(f"{what}: {answer.status_code} instead of {expected}")
                failures += changes(what, watch)
    report(failures)


def test_another_method_is_refused_and_changes_nothing(world: World) -> None:
    failures, client = [], signed_in(world.owner)
    with watched_rows() as watch:
        for name, route in ROUTES.items():
            for method in sorted(METHODS - set(route.methods.split())):
                answer = send(client, world, name, method, token=token_for(route, world))
                if answer.status_code != 405:
                    failures.append(f"{method} {name}: {answer.status_code} instead of 405")
                failures += changes(f"{method} {name}", watch)
    report(failures)


def test_another_sites_form_is_refused(world: World) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.owner)
    failures = []
    with watched_rows() as watch:
        for name, _route, method in requests_to(Access.MEMBER, Access.OWNER, Access.ANYBODY):
            if method == "POST" and name not in FROM_OTHER_SITES:
                answer = send(strict, world, name, method)
                if answer.status_code != 403:
                    failures.append(f"{name}: {answer.status_code} instead of 403")
                failures += changes(name, watch)
    report(failures)


# --- programs ------------------------------------------------------------------------------------
def test_a_program_needs_a_token_of_the_right_person_and_scope(world: World) -> None:
    """A session counts for nothing, and no CSRF token is asked for."""
    failures = []
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.owner)
    for name, route, method in requests_to(Access.PROGRAM):
        expected = {
            "no token": (401, ""),
            "a token without the scope": (403, world.token_without_scopes),
            "its token": (status_for_owner(route, method), world.token),
        }
        if method == "GET":
            others = route.stranger if route.ids else route.get
            expected["somebody else's token"] = (others, world.token_of_stranger)
        for what, (status, token) in expected.items():
            answer = send(strict, world, name, method, token=token)
            if answer.status_code != status:
                failures.append(
                    f"{method} {name} with {what}: {answer.status_code} instead of {status}"
                )
            if what != "its token" and MARK.encode() in content_of(answer):
                failures.append(f"{method} {name} with {what}: shows something of the owner's")
    report(failures)


# --- directories ---------------------------------------------------------------------------------
def test_a_directory_needs_its_own_token(world: World) -> None:
    """A session, also an admin's, and an access token count for nothing."""
    failures = []
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.admin)
    for name, route, method in requests_to(Access.DIRECTORY):
        with watched_rows() as watch:
            for what, token in (("a session", ""), ("an access token", world.token)):
                answer = send(strict, world, name, method, token=token)
                if answer.status_code != 401:
                    failures.append(f"{method} {name} with {what}: {answer.status_code}, not 401")
                failures += leaks(answer, f"{method} {name} with {what}", watch)
        if method != "DELETE":
            answer = send(strict, world, name, method, token=world.token_of_directory)
            if answer.status_code != status_for_owner(route, method):
                failures.append(f"{method} {name} with its token: {answer.status_code}")
    report(failures)


# --- the admin -----------------------------------------------------------------------------------
def admin_pages(
    world: World, rows: Mapping[str, object] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """The name and the address of every page of the admin, with rows that are there: these ids by
    the label of a model, or else the first row."""
    for each in addresses(get_resolver()):
        if each.namespace != "admin":
            continue
        words = ADMIN_PAGES.get(each.name, {})
        ids = {field: world.ids[word] for field, word in words.items()} | {"url": "no-such-page/"}
        if "object_id" in each.route and "object_id" not in ids:
            ids["object_id"] = find_row(each.route, rows)
        yield each.name, filled(each.route, ids)


def find_row(route: str, rows: Mapping[str, object]) -> object:
    """The id of a row of the thing whose page this is."""
    app, model = re.findall(r"\w+", route)[1:3]
    if f"{app}.{model}" in rows:
        return rows[f"{app}.{model}"]
    found = apps.get_model(app, model)._base_manager.first()
    assert found is not None, f"Add a row of {app}.{model} to tests/route_world.py."
    return found.pk


def filled(route: str, ids: Mapping[str, object]) -> str:
    """The address: a pattern with each of its parts replaced."""
    text = re.sub(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>[^)]*\)", lambda m: str(ids[m[1] or m[2]]), route)
    return "/" + text.replace("^", "").replace("$", "")


def test_members_do_not_enter_the_admin(world: World) -> None:
    failures = []
    for who, client in {"nobody": Client(), "a member": signed_in(world.owner)}.items():
        with watched_rows() as watch:
            for name, address in admin_pages(world):
                for method in ("GET", "POST"):
                    answer = client.generic(method, address)
                    what = f"{method} {address} ({name}) by {who}"
                    if not is_turned_away(answer):
                        failures.append(f"{what}: {answer.status_code} instead of the sign-in page")
                    failures += leaks(answer, what, watch)
    report(failures)


def is_turned_away(answer: Any) -> bool:
    to_the_door = ("/admin/login/", "/admin/", SIGN_IN)
    leads_there = answer.status_code == 302 and answer["Location"].split("?")[0] in to_the_door
    return leads_there or answer.status_code == 403


def is_for_all_admins(name: str) -> bool:
    """Addresses without a name lead to others, or to nothing."""
    return not name or name in ADMIN_PAGES_WITHOUT_RIGHTS


def test_an_admin_without_rights_opens_and_changes_nothing(world: World) -> None:
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    failures, client = [], signed_in(clerk)
    client.raise_request_exception = False
    with watched_rows() as watch:
        for name, address in admin_pages(world):
            for method in () if is_for_all_admins(name) else ("GET", "POST"):
                answer, what = client.generic(method, address), f"{method} {address} ({name})"
                if answer.status_code not in (403, 404, 405):
                    failures.append(f"{what}: {answer.status_code}")
                failures += leaks(answer, what, watch)
    report(failures)


def test_an_admin_opens_every_page_of_the_admin(world: World) -> None:
    failures, opened, client = [], 0, signed_in(world.admin)
    client.raise_request_exception = False
    for name, address in admin_pages(world):
        answer = client.get(address)
        if answer.status_code == 405 and name != "logout":
            answer = client.post(address)
        opened += answer.status_code == 200
        if answer.status_code >= 500:
            failures.append(f"{address} ({name}): {answer.status_code}")
        if name != "logout":
            failures += copies(answer, f"{address} ({name})")
    report(failures)
    assert opened > 100


# --- text of others in attributes ----------------------------------------------------------------
def make_texts_hostile() -> None:
    """Put a hostile text in each field for text of others that a page shows."""
    for model, *fields in (
        (Service, "title"),
        (ToolDefinition, "title", "description"),
        (Conversation, "title"),
        (Attachment, "name", "uri"),
        (AccessToken, "name"),
        (Member, "first_name", "last_name"),
        (Memory, "text"),
        (AnswerFeedback, "comment"),
        (Guidance, "text"),
        (Part, "text"),
        (PolicyRule, "name"),
        (PolicyTest, "name"),
        (ModelProvider, "label"),
        (ChatModel, "name", "label"),
        (Summary, "text"),
        (ToolCall, "tool_name"),
    ):
        model._base_manager.update(**dict.fromkeys(fields, HOSTILE))


def failures_in_attributes(
    world: World, names: Iterable[str] = ROUTES, *, with_admin: bool = True
) -> tuple[int, list[str]]:
    """How many answers show a hostile text, and the start tags with markup in an attribute."""
    shown, failures = 0, list[str]()

    def check(answer: Any, what: str) -> None:
        nonlocal shown
        if "html" in answer.get("Content-Type", ""):
            html = content_of(answer).decode()
            shown += "bold&lt;/b&gt;" in html
            failures.extend(f"{what}: {tag}" for tag in find_markup_in_attributes(html))

    client, admin_client = signed_in(world.owner), signed_in(world.admin)
    make_texts_hostile()
    for conversation in Conversation.objects.all():
        chat_access.open_chat(world.admin, conversation.pk, HOSTILE)
    for name, address in admin_pages(world) if with_admin else ():
        check(admin_client.get(address), f"{address} ({name})")
    chosen = set(names)
    for name, _route, method in requests_to(Access.MEMBER, Access.OWNER):
        if name in chosen:
            make_texts_hostile()
            check(send(client, world, name, method), f"{method} {name}")
    return shown, failures


@pytest.mark.gate
def test_no_attribute_of_a_page_holds_markup(world: World) -> None:
    shown, failures = failures_in_attributes(world)
    report(failures)
    assert shown > 40, "The hostile texts are hardly shown."


# --- planted faults ------------------------------------------------------------------------------
def test_a_page_that_forgets_whose_row_it_is_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    anybodys = classmethod(lambda cls, _person, pk: cls.objects.get(pk=pk))
    monkeypatch.setattr(Conversation, "of", anybodys)
    found = failures_of_others(world, ("chat-instructions", "mode"))
    assert "GET chat-instructions by a stranger: 200 instead of 404" in found
    assert "GET chat-instructions by an admin: shows something of the owner's" in found
    assert any(each.startswith("POST mode by a stranger: changes ") for each in found)


def test_a_page_that_a_cache_may_keep_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (middleware, access):
        monkeypatch.setattr(module, "forbid_keeping", lambda _response: None)
    found = failures_of_others(world, ("chat-instructions",))
    assert any("may be kept by a cache" in each for each in found)


def test_a_page_that_forgets_to_ask_for_a_sign_in_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_urls(monkeypatch, path("usage/", answer_anybody, name="usage"))
    assert failures_signed_out(world) == ["GET usage: 200 instead of the sign-in page"]


def test_an_attribute_with_drawn_text_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its filter, the announcement of a card holds the elements of hidden characters."""
    monkeypatch.setattr(defaultfilters, "strip_tags", lambda value: value)
    _shown, failures = failures_in_attributes(world, ("approval",), with_admin=False)
    assert any('data-say="Approval needed: Tidy<span class=' in each for each in failures)


def answer_anybody(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("Welcome")


def use_urls(monkeypatch: pytest.MonkeyPatch, *first: URLPattern) -> None:
    """Put these addresses before those of the project."""
    module = ModuleType("planted_urls")
    module.urlpatterns = [*first, *urls.urlpatterns]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(django_settings, "ROOT_URLCONF", module.__name__)
    clear_url_caches()
