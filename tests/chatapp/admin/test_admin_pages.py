"""The admin as a newcomer reads it: where to begin, where one is, and what the words mean."""

import re
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from django.contrib import admin as django_admin
from django.test import Client
from django.utils.text import capfirst
from django_tasks_db.models import DBTaskResult

from chatapp.admin.badges import EMPTY
from chatapp.audit import chat_access
from chatapp.models import Approval, LogEntry, Member, ToolCall
from mcpconfig.models import Service
from tests.turns import rows


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner))


def opened(client: Client, address: str) -> BeautifulSoup:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def words(element: Tag | None) -> str:
    return " ".join(element.get_text(" ").split()) if element else ""


def test_the_overview_says_how_to_begin_and_what_the_words_mean(admin_client: Client) -> None:
    page = opened(admin_client, "/admin/")
    assert words(page.select_one(".setup h2")) == "Finish setting up"
    explained = [words(each) for each in page.select(".words dt")]
    registered = {
        str(capfirst(model._meta.verbose_name_plural)).rstrip("s")
        for model in django_admin.site._registry
        if model is not DBTaskResult
    }
    assert registered <= set(explained)
    assert explained == sorted(explained, key=str.casefold)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/admin/mcpconfig/service/", "Services"),
        ("/admin/mcpconfig/tooldefinition/", "Tool definitions"),
        ("/admin/chatapp/approval/", "Approvals"),
        ("/admin/chatapp/member/", "Members"),
    ],
)
def test_a_list_is_called_by_its_name_and_the_way_to_it_names_nothing_twice(
    admin_client: Client, address: str, name: str
) -> None:
    page = opened(admin_client, address)
    steps = [each.strip() for each in words(page.select_one(".breadcrumbs")).split("›")]
    assert len(steps) == len(set(steps)) == 2
    assert steps[-1] == words(page.select_one("#content > h1")) == name


def test_a_form_keeps_the_name_of_what_is_done_in_it(admin_client: Client) -> None:
    page = opened(admin_client, "/admin/chatapp/member/add/")
    assert words(page.select_one("#content > h1")) == "Add member"


def test_dates_are_short_and_the_same_everywhere(
    admin_client: Client, admin: Member, call: ToolCall
) -> None:
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    page = opened(admin_client, f"/admin/chatapp/approval/{call.pk}/change/")
    shown = words(page.select_one(".field-created_at .readonly"))
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d", shown)


@pytest.mark.parametrize(
    ("values", "decider"),
    [
        ({"state": "failed", "risk": ""}, "–"),
        ({"state": "proposed", "risk": ""}, "–"),
        ({"state": "succeeded", "risk": "low"}, "policy"),
    ],
)
def test_only_a_call_that_was_decided_names_a_decider(
    admin_client: Client, call: ToolCall, values: dict[str, str], decider: str
) -> None:
    Approval.objects.all().delete()
    ToolCall.objects.update(**values)
    page = opened(admin_client, "/admin/chatapp/toolcall/")
    assert words(page.select_one("td.field-decided_by")) == decider


# --- lists ---------------------------------------------------------------------------------------
def test_calls_in_different_states_have_different_labels(
    admin_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner)
    for state in ToolCall.State:
        rows.call(turn, state=state)
    page = opened(admin_client, "/admin/chatapp/toolcall/")
    labels = {words(each) for each in page.select("#result_list .field-state_badge")}
    offered = {words(each) for each in page.select("#changelist-filter li a")}
    assert len(labels) == len(ToolCall.State)
    assert labels <= offered
    assert {"No service", "waiting for an answer"} <= offered


@pytest.mark.parametrize(
    ("address", "label"),
    [
        ("/admin/chatapp/policyrule/", "For all services"),
        ("/admin/chatapp/policytest/", "Built-in tools"),
        ("/admin/chatapp/trial/", "No service"),
        ("/admin/mcpconfig/service/", "Admins"),
    ],
)
def test_a_filter_names_rows_without_the_related_row(
    admin_client: Client, owner: Member, address: str, label: str
) -> None:
    for name, person in (("one", owner), ("other", None)):
        Service.objects.create(
            name=name, url=f"https://{name}.example/mcp", owner=person, visibility="everyone"
        )
    offered = {
        words(each) for each in opened(admin_client, address).select("#changelist-filter li")
    }
    assert label in offered
    assert not {"-", EMPTY} & offered


def test_calls_are_filtered_by_state(admin_client: Client, owner: Member) -> None:
    turn = rows.turn(owner)
    rows.call(turn, state=ToolCall.State.APPROVED)
    rows.call(turn, state=ToolCall.State.SENDING)
    page = opened(admin_client, "/admin/chatapp/toolcall/?state__exact=approved")
    assert [words(each) for each in page.select(".field-state_badge")] == ["approved"]


def test_the_log_counts_entries_and_says_who_acted_and_for_whom(
    admin_client: Client, owner: Member, admin: Member
) -> None:
    chat_access.open_chat(admin, rows.turn(owner).conversation_id, "A complaint")
    page = opened(admin_client, "/admin/chatapp/logentry/")
    count = LogEntry.objects.count()
    assert words(page.select_one(".paginator")).startswith(f"{count} entr")
    titles = [words(each) for each in page.select("#changelist-filter summary")]
    assert titles == ["By kind", "By date", "By actor", "By member"]
    heads = [words(each) for each in page.select("#result_list thead th")]
    assert heads[-2:] == ["Actor", "Member"]
    newest = page.select_one("#result_list tbody tr")
    assert newest is not None
    assert words(newest.select_one(".field-actor")) == "admin"
    assert words(newest.select_one(".field-person")) == "owner"


def test_an_empty_list_of_usage_counts_entries(admin_client: Client) -> None:
    page = opened(admin_client, "/admin/chatapp/usageofday/")
    assert words(page.select_one(".paginator")) == "0 entries"


def test_members_are_filtered_by_status(admin_client: Client, owner: Member) -> None:
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    page = opened(admin_client, "/admin/chatapp/member/?is_active__exact=0")
    assert [words(each) for each in page.select("#result_list tbody th")] == ["owner"]
