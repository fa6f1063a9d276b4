"""Trying a tool in the admin: policy decides, a yes binds to what was shown, nothing runs twice."""

import json
import uuid
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from chatapp.models import Member, ToolCall, Trial
from chatapp.permissions import reasons
from mcpconfig.models import Exchange, Service, ToolDefinition, ToolSetting
from mcpconfig.services import tool_definitions
from tests.conftest import signed_in
from tests.peers.bench import Bench

from .try_tool_page import Desk, Page

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]
State = ToolCall.State
ORDERS = {"limit": "2"}


def desk(client: Client, service: Service, tool: str = "list_orders") -> Desk:
    return Desk(client=client, service=service, tool=tool)


def set_tool(service: Service, name: str, **fields: Any) -> None:
    ToolSetting.objects.update_or_create(service=service, name=name, defaults=fields)


def second_admin() -> Client:
    return signed_in(Member.objects.create_superuser("second", password="second-password"))


def confirm(service: Service) -> None:
    tool_definitions.confirm_tools(tool_definitions.list_current_tools(service))


# --- the form --------------------------------------------------------------------------------
def test_the_form_shows_the_values_the_risk_and_what_policy_says(
    admin_client: Client, shop: Service
) -> None:
    page = desk(admin_client, shop).open()
    labels = [label.text for label in page.dom.one(id="try-form").all("label")]
    assert labels[0] == "limit required" and "state" in labels
    for words in (
        "Low",
        "Needs your approval",
        reasons.UNCONFIRMED,
        "Only reads.",
        "How many at most. · whole number, 1 to 50",
    ):
        assert words in page.said


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("limit", "", "Missing: limit."),
        ("limit", "99", "99 is greater than the maximum of 50"),
        ("limit", "two", "Enter a number"),
        ("limit", "NaN", "NaN, which is not a JSON number"),
        ("tags", "[a", "Enter valid JSON"),
        ("tags", '{"a": 1, "a": 2}', "contain the same name twice"),
        ("near", "[]", "near must be an object or null, not a list"),
        ("state", '"lost"', "Choose one of the options"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_kept(
    admin_client: Client, shop: Service, bench: Bench, name: str, typed: str, said: str
) -> None:
    """Nothing is asked about a call that its service would only refuse."""
    page = desk(admin_client, shop).open()
    values = {"limit": "3", "tags": '["kept"]'} | {name: typed}

    again = desk(admin_client, shop).send(page, **values)

    assert again.status == 422
    assert said in again.said
    kept = {each: value for each, value in values.items() if value != '"lost"'}
    assert {each: again.values[each] for each in kept} == kept
    assert bench.ran == [] and not Trial.objects.exists()


def test_fields_become_exact_json_and_back(admin_client: Client, shop: Service) -> None:
    tried = desk(admin_client, shop)
    exact = tried.send(tried.open(), limit="3", tags='["a"]', act="to_json")
    assert json.loads(exact.fields["exact"]) == {"limit": 3, "tags": ["a"]}

    back = tried.send(exact, exact='{"limit": 4, "state": "paid"}', act="to_fields")
    assert (back.values["limit"], back.values["state"], back.values["tags"]) == ("4", '"paid"', "")


def test_json_that_no_field_can_hold_stays_json(admin_client: Client, shop: Service) -> None:
    tried = desk(admin_client, shop)
    exact = tried.send(tried.open(), act="to_json")

    again = tried.send(exact, exact='{"limit": 4, "else": 1}', act="to_fields")

    assert again.status == 422 and "“else”" in again.said
    assert json.loads(again.fields["exact"]) == {"limit": 4, "else": 1}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"limit": 1e400}', '{"limit": 1, "limit": 2}'])
def test_json_that_cannot_be_sent_exactly_is_refused(
    admin_client: Client, shop: Service, bench: Bench, text: str
) -> None:
    tried = desk(admin_client, shop)
    exact = tried.send(tried.open(), act="to_json")
    again = tried.send(exact, exact=text)
    assert again.status == 422 and again.fields["exact"] == (text or "{}")
    assert bench.ran == []


# --- policy ----------------------------------------------------------------------------------
def test_what_policy_allows_runs_at_once(admin_client: Client, shop: Service, bench: Bench) -> None:
    confirm(shop)
    tried = desk(admin_client, shop)
    assert "Runs without asking" in tried.open().said

    done = tried.run(limit="2", state='"paid"', with_lines="true", near='{"town": "Bern"}')

    assert bench.ran == ["list_orders 2 paid True None town='Bern' street=''"]
    assert "Done" in done.said and "A-1" in done.said
    trial = Trial.objects.get()
    assert (trial.state, trial.risk, trial.was_confirmed) == (State.SUCCEEDED, "low", False)
    assert trial.why == reasons.RUNS["low"]


def test_what_asks_runs_only_after_a_yes_to_what_is_shown(
    admin_client: Client, shop: Service, bench: Bench
) -> None:
    tried = desk(admin_client, shop, "delete_order")
    asked = tried.ask(name="A-17")
    assert bench.ran == [] and not Exchange.objects.filter(operation="call_tool").exists()
    for words in (
        "Approve: Delete order · Shop",
        "High",
        "may not be able to undo",
        "A-17",
        "127.0.0.1",
    ):
        assert words in asked.said
    assert asked.dom.one("pre").text == '{"name":"A-17"}'

    done = tried.send(asked, act="run")

    assert bench.ran == ["delete_order A-17"]
    trial = Trial.objects.get()
    assert trial.was_confirmed and trial.state == State.SUCCEEDED
    assert "admin approved it" in Page.of(admin_client.get(done.location)).said


@pytest.mark.parametrize("off", ["tool", "service"])
def test_what_policy_denies_has_no_form_and_does_not_run(
    admin_client: Client, shop: Service, bench: Bench, off: str
) -> None:
    tried = desk(admin_client, shop)
    open_form = tried.open()
    if off == "tool":
        set_tool(shop, "list_orders", is_enabled=False)
    else:
        Service.objects.update(is_enabled=False)

    assert not tried.open().dom.all("form", id="try-form")
    refused = tried.send(open_form, limit="2")

    assert refused.status == 403
    assert reasons.TURNED_OFF in refused.said
    assert bench.ran == []


@pytest.mark.parametrize("level", ["medium", "high"])
def test_an_admins_own_level_counts(admin_client: Client, shop: Service, level: str) -> None:
    confirm(shop)
    set_tool(shop, "list_orders", level=level)
    asked = desk(admin_client, shop).ask(limit="2")
    assert f"Needs approval because the risk is {level}." in asked.said


def test_change_values_leads_back_with_what_was_typed(admin_client: Client, shop: Service) -> None:
    tried = desk(admin_client, shop, "delete_order")
    back = tried.send(tried.ask(name="A-17", reason="Old"), act="change")
    assert back.values == {"name": "A-17", "reason": "Old"}


# --- a yes is for exactly what was shown ------------------------------------------------------
def moved(service: Service) -> None:
    service.url = service.url.replace("/mcp", "/elsewhere")
    Service.objects.filter(pk=service.pk).update(url=service.url)


def changed(service: Service) -> None:
    service.definitions.update(is_current=False)


def private(service: Service) -> None:
    owner = Member.objects.create_user("somebody")
    Service.objects.update(owner=owner, visibility=Service.Visibility.PRIVATE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (moved, "its service changed"),
        (changed, "its service changed"),
        (private, "Only somebody can use this service"),
    ],
)
def test_a_yes_holds_only_while_everything_is_as_it_was_shown(
    admin_client: Client, shop: Service, bench: Bench, change: Any, said: str
) -> None:
    tried = desk(admin_client, shop, "delete_order")
    asked, address = tried.ask(name="A-17"), tried.address
    change(shop)

    refused = Page.of(admin_client.post(address, asked.fields | {"act": "run"}))

    assert refused.status in (403, 409) and said in refused.said
    assert bench.ran == [] and not Trial.objects.exists()


def test_a_yes_does_not_hold_for_other_values(
    admin_client: Client, shop: Service, bench: Bench
) -> None:
    tried = desk(admin_client, shop, "delete_order")
    asked = tried.ask(name="A-17")

    refused = tried.send(asked, act="run", exact='{"name":"A-18"}')

    assert refused.status == 409 and bench.ran == []
    assert refused.values["name"] == "A-18"


@pytest.mark.parametrize("forged", ["", "nonsense", "other"])
def test_a_yes_is_one_that_was_asked_for(
    admin_client: Client, shop: Service, bench: Bench, forged: str
) -> None:
    """An empty one asks; one that was signed for another form does not count for this one."""
    tried = desk(admin_client, shop, "delete_order")
    asked = tried.ask(name="A-17")
    other = {"trial": str(uuid.uuid4())} if forged == "other" else {"confirmed": forged}

    again = tried.send(asked, act="run", **other)

    assert bench.ran == []
    assert again.status == (422 if forged else 200)


def test_a_yes_of_somebody_else_does_not_count(
    admin_client: Client, shop: Service, bench: Bench
) -> None:
    asked = desk(admin_client, shop, "delete_order").ask(name="A-17")
    other = desk(second_admin(), shop, "delete_order")

    assert other.send(asked, act="run").status == 409
    assert bench.ran == []


def test_a_yes_that_came_too_soon_to_have_been_read_is_refused(
    admin_client: Client, shop: Service, bench: Bench
) -> None:
    tried = desk(admin_client, shop, "delete_order")
    asked = tried.send(tried.open(), name="A-17")

    assert "before you could read" in tried.send(asked, act="run").said
    assert bench.ran == []


def test_what_could_deceive_is_drawn_where_a_yes_is_asked(
    admin_client: Client, shop: Service
) -> None:
    shop.definitions.filter(name="delete_order").update(title="Keep\u202e <b>order")
    asked = desk(admin_client, shop, "delete_order").ask(name="A\u200b17")
    assert "Approve: Keep⟨U+202E⟩ <b>order · Shop" in asked.said
    assert "A⟨U+200B⟩17" in asked.said and "Contains hidden characters" in asked.said


# --- once ------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_form_runs_once_however_often_it_is_sent(
    admin_client: Client, shop: Service, bench: Bench, is_confirmed: bool
) -> None:
    if is_confirmed:
        confirm(shop)
    tried = desk(admin_client, shop)
    form, address = tried.open() if is_confirmed else tried.ask(**ORDERS), tried.address
    data = form.fields | ({"v0": "2"} if is_confirmed else {})

    first = admin_client.post(address, data)
    shop.definitions.update(is_current=False)
    second = admin_client.post(address, data)

    assert (first.status_code, second.status_code) == (302, 302)
    assert first["Location"] == second["Location"]
    admin_client.get(first["Location"])
    assert len(bench.ran) == 1


def test_the_number_of_somebody_elses_form_is_not_taken(
    admin_client: Client, shop: Service, bench: Bench
) -> None:
    confirm(shop)
    tried = desk(admin_client, shop)
    tried.run(**ORDERS)
    used = str(Trial.objects.get().pk)
    other = desk(second_admin(), shop)

    refused = other.send(other.open(), limit="2", trial=used)

    assert (refused.status, len(bench.ran)) == (409, 1)


# --- recorded --------------------------------------------------------------------------------
def test_a_trial_is_in_the_trace_and_in_the_history(admin_client: Client, shop: Service) -> None:
    confirm(shop)
    desk(admin_client, shop).run(**ORDERS)

    trial = Trial.objects.get()
    assert Exchange.objects.filter(round_id=str(trial.pk), operation="call_tool").exists()
    entry = LogEntry.objects.get(object_id=str(shop.pk))
    assert "list_orders" in entry.change_message and str(trial.pk) in entry.change_message
    listed = admin_client.get(reverse("admin:chatapp_trial_changelist"))
    assert "shop_list_orders" in listed.content.decode()
    row = reverse("admin:chatapp_trial_change", args=[trial.pk])
    assert admin_client.get(row).status_code == 200
    assert admin_client.post(row, {"state": "failed"}).status_code == 403


def test_a_trial_can_be_tried_again_with_its_values(admin_client: Client, shop: Service) -> None:
    confirm(shop)
    tried = desk(admin_client, shop)
    done = tried.run(limit="2", tags='["x"]')
    link = next(each for each in done.dom.all("a") if each.text == "Try again with these values")

    again = Page.of(admin_client.get(link["href"]))

    assert (again.values["limit"], json.loads(again.values["tags"])) == ("2", ["x"])
    assert again.fields["trial"] != str(Trial.objects.get().pk)


# --- who may ---------------------------------------------------------------------------------
def test_only_an_admin_tries_tools(
    stranger: Member, stranger_client: Client, client: Client, shop: Service, bench: Bench
) -> None:
    confirm(shop)
    trial = Trial.objects.create(service=shop, tool_id="x", tool_name="x", arguments="{}", why="")
    addresses = [
        desk(client, shop).address,
        reverse("admin:mcpconfig_service_trial", args=[shop.pk, trial.pk]),
        reverse("admin:mcpconfig_service_trial_content", args=[shop.pk, trial.pk, 0]),
    ]
    for address in addresses:
        assert client.get(address).status_code == 302
        assert stranger_client.get(address).status_code == 302
    stranger.is_staff = True
    stranger.save()
    for address in addresses:
        assert stranger_client.get(address).status_code == 403
        assert stranger_client.post(address, {"exact": "{}"}).status_code in (403, 405)
    assert bench.ran == []


def test_a_forged_post_runs_nothing(admin: Member, shop: Service, bench: Bench) -> None:
    confirm(shop)
    forger = Client(enforce_csrf_checks=True)
    forger.force_login(admin)
    data = {"trial": str(uuid.uuid4()), "exact": '{"limit": 1}'}
    assert forger.post(desk(forger, shop).address, data).status_code == 403
    assert bench.ran == []


def test_a_tool_of_another_service_is_not_there(admin_client: Client, shop: Service) -> None:
    other = Service.objects.create(
        name="other", url="https://other.example/mcp", visibility="everyone"
    )
    hash_ = ToolDefinition.objects.filter(service=shop)[0].hash
    address = reverse("admin:mcpconfig_service_try", args=[other.pk, hash_])
    assert admin_client.get(address).status_code == 404
