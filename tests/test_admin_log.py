"""A sweep over every form, button and download of the admin: each leaves an entry in the activity
log by the admin who used it, or is in a short list of exceptions with the reason.

An address that accepts a form, an action of a list or a button that is in neither list makes a
test fail, so that a new act is logged before it is used.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from bs4 import BeautifulSoup
from django.contrib import admin as django_admin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.admin.overview import hiding
from chatapp.admin.services.services import ChatServiceAdmin
from chatapp.audit import audit_log, change_entries, chat_access
from chatapp.audit.change_entries import WATCHED
from chatapp.models import (
    AccessToken,
    Allowance,
    Assistant,
    ChatModel,
    Consent,
    EmbeddingSettings,
    HousePolicy,
    Invitation,
    LogEntry,
    Member,
    ModelProvider,
    PolicyChange,
    PolicyRule,
    PolicyTest,
    SavedPrompt,
    SecondSignature,
    SharedLink,
    StandIn,
    ToolLimit,
    Webhook,
)
from chatapp.policy_changes import drafting
from chatapp.policy_changes.checks import run_checks
from chatapp.policy_changes.proposal import load_proposal
from chatapp.server.database import close_threads
from mcpconfig.models import IdentityProvider, OAuthClient, OAuthGrant, Service

from .conftest import make_recent, signed_in
from .route_world import URL, World, build_world
from .test_routes import STANDARD_ADMIN_PAGES, admin_pages, report

pytestmark = [
    pytest.mark.gate,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("no_logging"),
]
Kind = LogEntry.Kind
TEMPLATES = Path(__file__).parents[1] / "templates" / "admin"


@pytest.fixture
def world(
    transactional_db: None, owner: Member, stranger: Member, admin: Member, settings: Any
) -> Iterator[World]:
    settings.PUBLIC_URL = "https://chat.example"
    yield build_world(owner, stranger, admin)
    close_threads()


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One form, button or download, and the kind of its entry. `form` makes the rows that it needs
    and returns what is sent beside the button, such as `act=check`; `ids` names the row."""

    page: str
    kind: str
    form: Callable[[World], dict[str, Any]] = lambda _world: {}
    ids: Callable[[World], dict[str, Any]] | None = None
    button: str = ""
    is_download: bool = False

    def __str__(self) -> str:
        return f"{self.page} {self.button} {self.kind}"


def sent(**fields: Any) -> Callable[[World], dict[str, Any]]:
    return lambda _world: fields


# --- what the forms need -------------------------------------------------------------------------
def draft_of(world: World) -> PolicyChange:
    """Start a change of the admin that takes the limit away."""
    change = drafting.start(world.admin, "No limit")
    limit = ToolLimit.objects.create(tool="buy", calls=7)
    drafting.store_edit(change, world.admin, "limit", limit.pk, None)
    run_checks(change)
    return change


def version_of(change: PolicyChange) -> str:
    return load_proposal(PolicyChange.objects.get(pk=change.pk)).version


def decide(
    state: str = "draft", author: str = "admin", **more: Any
) -> tuple[Callable[[World], dict[str, Any]], Callable[[World], dict[str, Any]]]:
    """Return the form of a decision about a change in this state, and the id of the change."""
    made: list[PolicyChange] = []

    def find_ids(world: World) -> dict[str, Any]:
        change = draft_of(world)
        values: dict[str, Any] = {"state": state, "author": getattr(world, author)}
        if state == "waiting":
            values["submitted_at"] = timezone.now()
        PolicyChange.objects.filter(pk=change.pk).update(**values)
        made.append(change)
        return {"object_id": change.pk}

    def build_form(_world: World) -> dict[str, Any]:
        edit = made[-1].edits.get()
        return {"version": version_of(made[-1]), "edit": edit.pk, **more}

    return build_form, find_ids


def decision(act: str, kind: str, **how: Any) -> Act:
    form, ids = decide(**how)
    page = "chatapp_policychange_change"
    return Act(page=page, kind=kind, button=f"do={act}", form=form, ids=ids)


def undone(world: World) -> dict[str, Any]:
    """Apply a change of the admin, to undo it."""
    change = draft_of(world)
    client = make_recent(signed_in(world.admin))
    address = reverse("admin:chatapp_policychange_change", args=[change.pk])
    client.post(address, {"do": "apply", "version": version_of(change)})
    return {"object_id": change.pk}


def choose_tool(world: World) -> dict[str, Any]:
    return {"definition": world.ids["definition"]}


def choose_level(world: World) -> dict[str, Any]:
    return {**choose_tool(world), "level": "high"}


def let_opinions_be_asked(world: World) -> dict[str, Any]:
    HousePolicy.objects.update(opinion_model="demo:demo")
    return choose_tool(world)


def choose_embeddings(_world: World) -> dict[str, Any]:
    """A model that no server is asked for."""
    EmbeddingSettings.objects.update(model="demo:assistant")
    return {}


def end_permission(world: World) -> dict[str, Any]:
    given = Consent.objects.create(
        person_id=world.ids["member"],
        service_id=world.ids["service"],
        scope="service",
        definitions={},
    )
    return {"end": str(given.pk)}


def end_grant(world: World) -> dict[str, Any]:
    service = Service.objects.get(pk=world.ids["service"])
    grant = OAuthGrant.objects.create(
        service=service, person=world.owner, endpoint=service.endpoint, issuer="https://x.example"
    )
    return {"sign_in": grant.pk}


def forget_client(world: World) -> dict[str, Any]:
    client = OAuthClient.objects.create(
        service_id=world.ids["service"],
        issuer="https://x.example",
        client_id="c",
        kind="registered",
    )
    return {"registration": client.pk}


def open_chat(world: World) -> dict[str, Any]:
    return {"reason": "To look at it.", "next": "/admin/"}


def try_values(world: World) -> dict[str, Any]:
    page = make_recent(signed_in(world.admin)).get(
        reverse("admin:mcpconfig_service_try", args=[world.ids["service"], world.ids["definition"]])
    )
    return read_form(page, "form[method=post]")


def check_address(_world: World) -> dict[str, Any]:
    return {"url": URL, "name": "mill", "authentication": "none"}


def check_account(_world: World) -> dict[str, Any]:
    return {
        **{"kind": "openai-chat", "label": "Mill", "slug": "mill"},
        **{"base_url": "http://127.0.0.1:1/v1", "key_place": "none"},
    }


def hidden_need(_world: World) -> dict[str, Any]:
    return {"name": "checks", "act": "day", "facts": "a" * 64, "rank": "12"}


def new_password(_world: World) -> dict[str, Any]:
    word = "a-really-long-password-7"
    return {"password1": word, "password2": word, "usable_password": "true"}


def own_password(_world: World) -> dict[str, Any]:
    word = "a-really-long-password-7"
    return {"old_password": "admin-password", "new_password1": word, "new_password2": word}


SERVICES = "mcpconfig_service_{}".format
PROVIDERS = "chatapp_modelprovider_{}".format
ACTS = (
    # Services
    Act(page=SERVICES("test"), kind=Kind.SERVICE_CHECKED),
    Act(page=SERVICES("retry"), kind=Kind.SERVICE_CHECKED),
    Act(page=SERVICES("fetch_tools"), kind=Kind.SERVICE_CHECKED),
    Act(
        page=SERVICES("connect"), kind=Kind.SERVICE_CHECKED, button="act=check", form=check_address
    ),
    Act(
        page=SERVICES("connect_draft"),
        kind=Kind.SERVICE_CHECKED,
        button="act=check",
        form=check_address,
    ),
    Act(page=SERVICES("connect_draft"), kind=Kind.SERVICE_CHECKED, button="act=discard"),
    Act(page=SERVICES("resources"), kind=Kind.SERVICE_CHECKED, form=sent(uri="notes://1")),
    Act(page=SERVICES("prompt"), kind=Kind.SERVICE_CHECKED, form=sent(prompt="sum")),
    Act(page=SERVICES("confirm_tools"), kind=Kind.TOOL, form=choose_tool),
    Act(page=SERVICES("switch"), kind=Kind.SERVICE),
    Act(page=SERVICES("act_on_tools"), kind=Kind.TOOL, button="act=off", form=choose_tool),
    Act(page=SERVICES("act_on_tools"), kind=Kind.TOOL, button="act=on", form=choose_tool),
    Act(page=SERVICES("act_on_tools"), kind=Kind.TOOL, button="act=level", form=choose_level),
    Act(
        page=SERVICES("act_on_tools"),
        kind=Kind.TOOL,
        button="act=ask_opinion",
        form=let_opinions_be_asked,
    ),
    Act(page=SERVICES("revoke"), kind=Kind.DISCONNECTED, form=end_grant),
    Act(page=SERVICES("forget_registration"), kind=Kind.SERVICE, form=forget_client),
    Act(page=SERVICES("export"), kind=Kind.DOWNLOADED, is_download=True),
    # Models
    Act(page=PROVIDERS("test"), kind=Kind.MODELS_CHECKED),
    Act(page=PROVIDERS("fetch"), kind=Kind.MODELS_CHECKED),
    Act(page=PROVIDERS("add"), kind=Kind.MODELS_CHECKED),
    Act(page=PROVIDERS("look"), kind=Kind.MODELS_CHECKED),
    Act(page=PROVIDERS("add_server"), kind=Kind.MODELS_CHECKED),
    Act(
        page=PROVIDERS("connect"), kind=Kind.MODELS_CHECKED, button="act=check", form=check_account
    ),
    Act(
        page=PROVIDERS("connect_draft"),
        kind=Kind.MODELS_CHECKED,
        button="act=check",
        form=check_account,
    ),
    Act(page=PROVIDERS("connect_draft"), kind=Kind.MODELS_CHECKED, button="act=discard"),
    Act(page=PROVIDERS("answer"), kind=Kind.MODEL_TESTED, form=sent(sample_model="small")),
    Act(page="chatapp_embeddingsettings_test", kind=Kind.MODEL_TESTED, form=choose_embeddings),
    # Policy
    decision("describe", Kind.CHANGE_DRAFTED, title="Other", reason=""),
    decision("remove", Kind.CHANGE_DRAFTED),
    decision("check", Kind.CHANGE_DRAFTED),
    decision("discard", Kind.CHANGE_DISCARDED),
    decision("submit", Kind.CHANGE_SUBMITTED),
    decision("apply", Kind.CHANGE_APPLIED),
    decision("approve", Kind.CHANGE_APPROVED, state="waiting", author="stranger"),
    decision("reject", Kind.CHANGE_REJECTED, state="waiting", author="stranger"),
    decision("reopen", Kind.CHANGE_REOPENED, state="waiting"),
    Act(
        page="chatapp_policychange_change",
        kind=Kind.CHANGE_UNDONE,
        button="do=undo",
        ids=undone,
    ),
    # People
    Act(page="chatapp_member_off_board", kind=Kind.OFF_BOARDED, form=sent(chats="keep")),
    Act(page="chatapp_member_things", kind=Kind.CONSENT_REVOKED, form=end_permission),
    Act(page="auth_user_password_change", kind=Kind.MEMBER, form=new_password),
    Act(page="password_change", kind=Kind.MEMBER, form=own_password),
    # Chats
    Act(page="chatapp_conversation_open", kind=Kind.CHAT_OPENED, form=open_chat),
    Act(page="chatapp_conversation_evidence", kind=Kind.DOWNLOADED, is_download=True),
    # The admin itself
    Act(page="hide_need", kind=Kind.NEED_HIDDEN, form=hidden_need),
    Act(page="hide_need", kind=Kind.NEED_HIDDEN, form=sent(show="1")),
    Act(page="system_keys", kind=Kind.SECRETS_ROTATED),
    Act(page="logout", kind=Kind.SIGNED_OUT),
)
# Addresses that accept a form and leave no entry.
SILENT_PAGES = {
    "login": "the sign-in page of the chat, which logs each sign-in",
    SERVICES("import"): "the last step adds services, and each one is logged as added",
    SERVICES("try"): "running a tool is logged as a trial; until then a form is filled in",
    SERVICES("unused"): "switches tools, and each one is logged as changed",
}
# Buttons that change and send nothing.
SILENT_BUTTONS = {
    "review": "opens the page to confirm tools",
    "edit": "opens the form of a row",
    "to_fields": "shows the values in the other form",
    "to_json": "shows the values in the other form",
    "change": "opens the form with the values",
}
# Buttons whose entries are those of the rows that they add, and have tests of their own.
BUTTONS_OF_ROWS = {"save", "save_off", "run", "answer", "set_opinion_aside"}


# --- the lists and forms that Django makes -------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What is typed into the form of a model: to add a row, and to change one."""

    kind: str
    add: Callable[[World], dict[str, Any]] | None
    change: dict[str, Any] | None


def of_service(world: World) -> dict[str, Any]:
    return {
        "name": "Other", "person": world.owner.pk, "service": world.ids["service"], "tool": "buy",
        "expected": "ask", "arguments": "{}",
    }  # fmt: skip


def delegate(world: World) -> dict[str, Any]:
    today = timezone.localdate()
    return {
        "approver": world.owner.pk,
        "stand_in": world.stranger.pk,
        "begins_on": today,
        "ends_on": today,
    }


FORMS: dict[type[Model], Form] = {
    Service: Form(
        kind=Kind.SERVICE,
        add=lambda _world: {"name": "mill", "title": "Mill", "url": URL},
        change={"title": "Other"},
    ),
    IdentityProvider: Form(
        kind=Kind.SERVICE,
        add=lambda _world: {
            "name": "other",
            "title": "Other",
            "issuer": "https://id.example",
            "client_id": "c",
        },
        change={"title": "Other", "client_id": "c"},
    ),
    ModelProvider: Form(
        kind=Kind.MODELS,
        add=lambda _world: {
            **{"label": "Other", "slug": "other", "kind": "openai-chat"},
            **{"base_url": "https://models.example/v1", "key_place": "none"},
        },
        change={"label": "Other"},
    ),
    ChatModel: Form(
        kind=Kind.MODELS,
        add=lambda world: {"provider": world.ids["provider"], "name": "other"},
        change={"label": "Other"},
    ),
    Allowance: Form(
        kind=Kind.MODELS,
        add=lambda world: {"person": world.stranger.pk, "tokens": 5},
        change={"tokens": 7},
    ),
    Group: Form(kind=Kind.MEMBER, add=lambda _world: {"name": "Others"}, change={"name": "Other"}),
    Member: Form(
        kind=Kind.MEMBER,
        add=lambda _world: {"username": "newcomer"},
        change={"first_name": "Other"},
    ),
    Invitation: Form(
        kind=Kind.INVITED, add=lambda _world: {"email": "new@example.com"}, change=None
    ),
    Webhook: Form(
        kind=Kind.NOTIFICATIONS,
        add=lambda _world: {
            **{"name": "Other", "format": "slack", "address": "https://hooks.slack.com/x"},
            **{"audience": "everyone", "sends_waiting": "on"},
        },
        change={"name": "Other", "address": "https://hooks.slack.com/x"},
    ),
    PolicyChange: Form(
        kind=Kind.CHANGE_DRAFTED, add=lambda _world: {"title": "Other"}, change=None
    ),
    PolicyRule: Form(
        kind=Kind.POLICY,
        add=lambda _world: {"name": "Other", "effect": "ask", "tool": "x"},
        change={"name": "Other"},
    ),
    ToolLimit: Form(
        kind=Kind.POLICY, add=lambda _world: {"tool": "x", "calls": 3}, change={"calls": 4}
    ),
    EmbeddingSettings: Form(kind=Kind.MODELS, add=None, change={"dimensions": 512}),
    HousePolicy: Form(kind=Kind.POLICY, add=None, change={"consent_days": 12}),
    PolicyTest: Form(kind=Kind.POLICY, add=of_service, change={"name": "Other"}),
    SecondSignature: Form(
        kind=Kind.POLICY,
        add=lambda _world: {"name": "Other", "approvers": Group.objects.get(name="Operations").pk},
        change={"name": "Other"},
    ),
    StandIn: Form(kind=Kind.POLICY, add=delegate, change={"ends_on": "2030-01-01"}),
    Assistant: Form(kind=Kind.PRESET_DELETED, add=None, change=None),
    SavedPrompt: Form(kind=Kind.PRESET_DELETED, add=None, change=None),
}
# The kind of the entry of each action of a list, beside that of deleting.
ACTIONS: dict[tuple[type[Model], str], str] = {
    (Service, "enable"): Kind.SERVICE,
    (Service, "disable"): Kind.SERVICE,
    (Service, "export_chosen"): Kind.DOWNLOADED,
    (ChatModel, "enable"): Kind.MODELS,
    (ChatModel, "disable"): Kind.MODELS,
    (AccessToken, "revoke"): Kind.TOKEN_REVOKED,
    (SharedLink, "revoke"): Kind.SHARE_REVOKED,
    (Invitation, "revoke"): Kind.INVITED,
    (Member, "make_sign_in_links"): Kind.MEMBER,
    (Member, "remove_second_factors"): Kind.FACTOR_REMOVED,
    (Webhook, "send_test"): Kind.NOTIFICATIONS_TESTED,
}


def read_form(answer: Any, selector: str) -> dict[str, Any]:
    """Return what a form of the page would send as it is."""
    page = BeautifulSoup(answer.content, "html.parser").select_one(selector)
    assert page is not None, selector
    values: dict[str, Any] = {}
    for field in page.select("[name]:not([name*=__prefix__]):not([type=submit])"):
        name = str(field["name"])
        if field.name == "select":
            options = list(field.select("option[selected]"))
            if not options and not field.has_attr("multiple"):
                options = list(field.select("option")[:1])
            chosen = [str(each.get("value", "")) for each in options]
            values[name] = chosen if field.has_attr("multiple") else "".join(chosen)
        elif field.name == "textarea":
            values[name] = field.text.removeprefix("\n")
        elif field.get("type") in ("checkbox", "radio"):
            if field.has_attr("checked"):
                values[name] = str(field.get("value", "on"))
        else:
            values[name] = str(field.get("value", ""))
    return values


# --- sending and looking -------------------------------------------------------------------------
def entries_after(position: int, admin: Member) -> list[str]:
    logged = LogEntry.objects.filter(position__gt=position, actor_id=admin.pk)
    return list(logged.values_list("kind", flat=True))


def find_unlogged(world: World, what: str, kind: str, send: Callable[[], Any]) -> Iterator[str]:
    """Yield what is wrong with the entries that this request leaves."""
    before = audit_log.read_end().position
    answer = send()
    found = entries_after(before, world.admin)
    if kind not in found:
        yield f"{what}: no entry of the kind {kind}, only {found}; the answer: {describe(answer)}"
    elif found.count(kind) > 1 and kind in ONCE:
        yield f"{what}: {found.count(kind)} entries of the kind {kind} for one act"


# They wait for a thread that writes as well.
LASTING = ("send_test",)
# Acts without rows of their own: one entry each.
ONCE = {
    *(Kind.SERVICE_CHECKED, Kind.MODELS_CHECKED, Kind.MODEL_TESTED, Kind.DOWNLOADED),
    *(Kind.NOTIFICATIONS_TESTED, Kind.CHANGE_DRAFTED, Kind.CHAT_OPENED, Kind.NEED_HIDDEN),
}


def describe(answer: Any) -> str:
    page = BeautifulSoup(b"" if answer.streaming else answer.content, "html.parser")
    errors = [each.get_text(" ", strip=True) for each in page.select(".errorlist")]
    return f"{answer.status_code} {answer.get('Location', '')} {errors}"


def failures_of_acts(world: World, pages: Iterable[str] = ()) -> list[str]:
    """Each act that leaves no entry; only those of these pages."""
    chosen = set(pages) or {each.page for each in ACTS}
    failures: list[str] = []
    # Its evidence asks for a reason first.
    chat_access.open_chat(world.admin, world.ids["chat"], "To look at it.")
    # The first of two pages with one name: the add form of providers is among the standard ones.
    addresses = dict(reversed(list(admin_pages(world))))
    for act in ACTS:
        if act.page in chosen:
            world.admin.refresh_from_db()  # a new password ends the sessions of the old one
            client = make_recent(signed_in(world.admin))
            do = partial(send, client, world, act, addresses[act.page])
            failures += find_unlogged(world, str(act), act.kind, do)
    return failures


def send(client: Client, world: World, act: Act, address: str) -> Any:
    if act.is_download:
        answer = client.get(address)
        assert answer.get("Content-Disposition", "").startswith("attachment")
        return answer
    address, typed = prepare(world, act, address)
    return client.post(address, typed)


def prepare(world: World, act: Act, address: str) -> tuple[str, dict[str, Any]]:
    """Make the rows that the act needs. Return its address and what is sent."""
    if act.ids is not None:
        address = reverse(f"admin:{act.page}", kwargs=act.ids(world))
    name, _equals, value = act.button.partition("=")
    return address, {**({name: value} if name else {}), **act.form(world)}


def make_row(model: type[Model]) -> Model:
    """Return a row that can be deleted: a member without chats, and a group without approvals."""
    if model is Group:
        return Group.objects.get_or_create(name="Spare")[0]
    if model is Member:
        member, is_new = Member.objects.get_or_create(username="spare")
        if is_new:
            Authenticator.objects.create(user=member, type="totp", data={})
        return member
    row = model._base_manager.first()
    assert row is not None, f"Add a row of {model._meta.label} to tests/route_world.py."
    return row


def name_page(model: type[Model], page: str) -> str:
    return f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"


def failures_of_forms(world: World, models: Iterable[type[Model]] = FORMS) -> list[str]:
    """Each form or action of a list that leaves no entry. What they did is undone."""
    failures: list[str] = []
    for model in models:
        for what, kind, do in list_standard_acts(model, world):
            undone = nullcontext() if what in LASTING else transaction.atomic()
            with undone:
                found = list(find_unlogged(world, f"{model._meta.label} {what}", kind, do))
                if what not in LASTING:
                    transaction.set_rollback(True)
            failures += found
    return failures


def list_standard_acts(
    model: type[Model], world: World, sender: Client | None = None
) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the name, the kind of the entry, and the request of each form and action, by the admin
    or by this client. The forms are those that the admin is shown."""
    reader, form = make_recent(signed_in(world.admin)), FORMS.get(model)
    client = sender or reader
    row = make_row(model)
    selector = f"#user_form, #{model._meta.model_name}_form"

    def submit(address: str, typed: dict[str, Any]) -> Any:
        return client.post(address, {**read_form(reader.get(address), selector), **typed})

    def add() -> Any:
        assert form is not None and form.add is not None
        return submit(reverse(name_page(model, "add")), form.add(world))

    def change() -> Any:
        assert form is not None and form.change is not None
        address = reverse(name_page(model, "change"), args=[row.pk])
        return submit(address, form.change)

    def delete() -> Any:
        address = reverse(name_page(model, "delete"), args=[row.pk])
        return client.post(address, {"post": "yes"})

    def act(name: str) -> Any:
        chosen = {"action": name, "_selected_action": [row.pk], "post": "yes"}
        return client.post(reverse(name_page(model, "changelist")), chosen)

    if form is not None:
        acts: dict[str, Callable[[], Any] | None] = {
            "add": add if form.add else None,
            "change": change if form.change else None,
            "delete": delete if may_delete(model) else None,
        }
        yield from ((what, form.kind, do) for what, do in acts.items() if do is not None)
    pages = django_admin.site._registry[model]
    names = [str(each) for each in pages.actions or ()]
    if form is not None and may_delete(model) and pages.actions is not None:
        yield "delete_selected", form.kind, partial(act, "delete_selected")
    for name in names:
        if name in ("enable", "disable"):
            model._base_manager.filter(pk=row.pk).update(is_enabled=name == "disable")
        yield name, ACTIONS[model, name], partial(act, name)


def may_delete(model: type[Model]) -> bool:
    return model not in (EmbeddingSettings, HousePolicy, Invitation, PolicyChange)


def list_models() -> list[type[Model]]:
    """Every model of the admin that has a form or an action."""
    return [model for model in django_admin.site._registry if has_acts(model)]


def has_acts(model: type[Model]) -> bool:
    pages = django_admin.site._registry[model]
    request: Any = type(
        "Request", (), {"user": Member(is_superuser=True, is_active=True), "GET": {}}
    )
    acts = (
        pages.has_add_permission,
        pages.has_change_permission,
        pages.has_delete_permission,
    )
    return bool(pages.actions) or any(may(request) for may in acts)


# --- the sweep -----------------------------------------------------------------------------------
def test_every_act_of_an_own_page_is_in_the_log(world: World) -> None:
    report(failures_of_acts(world))


def test_every_form_and_action_of_a_list_is_in_the_log(world: World) -> None:
    report(failures_of_forms(world, list_models()))


def test_every_address_that_accepts_a_form_is_listed(world: World) -> None:
    report(find_unlisted(world, KNOWN_PAGES))


KNOWN_PAGES = frozenset({*(act.page for act in ACTS), *SILENT_PAGES})


def find_unlisted(world: World, known: frozenset[str], part: str = "") -> list[str]:
    """A sentence for each address that treats a form otherwise than it shows its page; only for
    those whose names begin with `part`."""
    client = make_recent(signed_in(world.admin))
    client.raise_request_exception = False
    failures = []
    for name, address in admin_pages(world):
        is_standard = name.rpartition("_")[2] in STANDARD_ADMIN_PAGES
        if not name.startswith(part) or not name or is_standard or name in known:
            continue
        shown, answered = client.get(address), client.post(address, {"unknown": "x"})
        if answered.status_code not in (404, 405) and (
            shown.status_code == 405 or answered.status_code != shown.status_code
        ):
            failures.append(f"{name} accepts a form: add it to ACTS or to SILENT_PAGES.")
    return failures


def test_every_button_is_listed() -> None:
    """The values by which one address does several things."""
    found = {
        value
        for path in TEMPLATES.rglob("*.html")
        for value in re.findall(r'name="(?:act|do)" value="(\w+)"', path.read_text())
    }
    assert found - BUTTONS_OF_ROWS - set(SILENT_BUTTONS) - buttons_of_acts() == set()


def buttons_of_acts() -> set[str]:
    return {act.button.partition("=")[2] for act in ACTS if act.button}


def test_every_action_has_a_kind() -> None:
    """Else nobody has said what its entry is."""
    for model in list_models():
        for action in django_admin.site._registry[model].actions or ():
            assert (model, str(action)) in ACTIONS
        assert model in FORMS or any(of is model for of, _name in ACTIONS), model


def test_every_field_of_a_form_is_in_the_log(world: World) -> None:
    """A change of a field that the log does not watch would leave no entry."""
    request = make_recent(signed_in(world.admin)).get("/admin/").wsgi_request
    for model, (_kind, watched) in WATCHED.items():
        pages = django_admin.site._registry.get(model)
        if pages is None or not watched:
            continue
        stored = {field.name: field.attname for field in model._meta.concrete_fields}
        shown = {stored[name] for name in pages.get_form(request).base_fields if name in stored}
        assert shown <= set(watched), f"{model._meta.label}: {shown - set(watched)}"


def test_an_entry_about_an_address_has_only_its_host(world: World) -> None:
    """Paths and queries of services may be keys."""
    client = signed_in(world.admin)
    secret = "key-9f2c"
    form = {
        **check_address(world),
        "act": "check",
        "url": f"https://user:{secret}@127.0.0.1:1/{secret}/mcp?token={secret}",
    }
    client.post(reverse("admin:mcpconfig_service_connect"), form)
    entry = LogEntry.objects.filter(kind=Kind.SERVICE_CHECKED).get()
    assert "127.0.0.1:1" in entry.data
    assert secret not in entry.data


# --- planted faults ------------------------------------------------------------------------------
def test_an_act_that_leaves_no_entry_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatServiceAdmin, "note_act", lambda *_: None)
    monkeypatch.setattr(hiding, "_log", lambda *_: None)
    found = failures_of_acts(world, (SERVICES("test"), "hide_need", PROVIDERS("test")))
    assert [each.partition(" ")[0] for each in found] == [
        *(SERVICES("test"), "hide_need", "hide_need"),
    ]


def test_an_act_that_leaves_two_entries_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = ChatServiceAdmin.note_act

    def twice(pages: Any, *args: Any) -> None:
        once(pages, *args)
        once(pages, *args)

    monkeypatch.setattr(ChatServiceAdmin, "note_act", twice)
    (found,) = failures_of_acts(world, (SERVICES("retry"),))
    assert "2 entries" in found


def test_a_form_that_leaves_no_entry_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_entries, "_log", lambda *_: None)
    found = failures_of_forms(world, (ToolLimit,))
    assert [each.partition(":")[0] for each in found] == [
        f"chatapp.ToolLimit {act}" for act in ("add", "change", "delete")
    ]


def test_an_address_that_is_not_listed_is_reported(world: World) -> None:
    (found,) = find_unlisted(world, KNOWN_PAGES - {"hide_need"}, "hide")
    assert found.startswith("hide_need ")
