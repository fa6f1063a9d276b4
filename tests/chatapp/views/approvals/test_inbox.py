"""The inbox, the page of one call, and what comes after an answer."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.approvals.inbox import MAX_SHOWN, OUTCOMES_KEPT
from chatapp.models import AccessToken, Approval, Member, ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.rendering.cards.approval_card import build_row_decision
from chatapp.rendering.pages.inbox import build_inbox_address
from mcpconfig.models import Service
from tests.dom_tree import Element, parse
from tests.turns import rows

from .test_decisions import decide, resolve

State = ToolCall.State


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner, text="Tidy up"), definition=rows.definition())


# --- the list, and one on a page of its own --------------------------------------------------
def test_the_list_has_what_waits_for_this_person_by_what_is_wanted_oldest_first(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    newer, older = rows.turn(owner, text="Newer"), rows.turn(owner, text="Older")
    second = rows.question(newer, definition=rows.definition(title="Delete a note"))
    lost = rows.call(newer, {}, State.UNKNOWN, definition=rows.definition(title="Send a letter"))
    first = rows.question(older)
    Approval.objects.filter(pk=first.pk).update(created_at=timezone.now() - timedelta(hours=1))
    rows.call(newer, {}, State.SUCCEEDED)
    rows.call(newer, {}, State.AWAITING_TASK)
    rows.question(rows.turn(stranger))
    inbox = parse(owner_client.get("/approvals/").content.decode()).one(id=page_values.INBOX_ID)
    assert len(inbox.all("h2")) == 2
    asked, unknown = inbox.with_class("open-calls")
    assert [each["href"] for each in asked.all("a")] == [
        build_inbox_address(first.pk),
        build_inbox_address(second.pk),
    ]
    assert asked.all("li")[1].one("b").text == "Delete a note"
    assert unknown.one("a")["href"] == f"/approvals/{lost.pk}/"


def test_a_line_of_the_list_tells_one_question_from_the_next(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, text="Tidy up")
    git = rows.service("git", title="Git", url="https://git.example/mcp", authentication="bearer")
    values = {"title": "Old\u202e ideas", "dry": True, "tags": ["a"], "count": 3}
    rows.question(turn, values, definition=rows.definition(), service=git)
    Approval.objects.update(created_at=timezone.now() - timedelta(hours=2, minutes=5))
    line = parse(owner_client.get("/approvals/").content.decode()).with_class("open-calls")[0]
    assert line.one("code").text == "Old⟨U+202E⟩ ideas, True, 3"
    assert line.one("a")["data-risk"] == "high"
    places = [each.text for each in line.with_class("where")[0].all("span")]
    assert places[:2] == ["Git", "git.example"] and len(places) == 3
    expires = Approval.objects.get().expires_at.strftime("%-d %b, %H:%M")
    where = line.all("small")[1].text.replace("\xa0", " ")
    assert where == f"Asked 2 hours ago in “Tidy up” · expires {expires} · waiting for approval"


def test_a_lost_call_of_the_list_says_when_it_was_sent(owner_client: Client, owner: Member) -> None:
    sent_at = timezone.now() - timedelta(minutes=3)
    rows.call(rows.turn(owner), {}, State.UNKNOWN, sent_at=sent_at)
    rows.call(rows.turn(owner), {}, State.UNKNOWN)
    lines = parse(owner_client.get("/approvals/").content.decode()).with_class("open-calls")[0]
    ages = [each.all("small")[1].text for each in lines.all("a")]
    assert sorted(ages) == [
        "Asked in “Hello” · outcome unknown",
        "Sent 3 minutes ago in “Hello” · outcome unknown",
    ]
    assert {each["data-risk"] for each in lines.all("a")} == {"high"}


def test_a_sign_in_does_not_say_that_none_is_needed(owner_client: Client, owner: Member) -> None:
    git = rows.service(
        "git",
        title="Git",
        url="https://git.example/mcp",
        authentication=Service.Authentication.OAUTH_USER,
    )
    rows.call(rows.turn(owner), state=State.AWAITING_SIGN_IN, service=git)
    line = parse(owner_client.get("/approvals/").content.decode()).with_class("open-calls")[0]
    assert "waiting for sign-in" in line.text
    assert "no sign-in needed" not in line.text


@pytest.mark.parametrize("is_admin", [False, True])
def test_a_shared_sign_in_waits_for_an_admin(
    owner_client: Client, owner: Member, is_admin: bool
) -> None:
    Member.objects.filter(pk=owner.pk).update(
        is_staff=is_admin, rights=["services"] if is_admin else []
    )
    git = rows.service(
        "git",
        url="https://git.example/mcp",
        authentication=Service.Authentication.OAUTH_SHARED,
    )
    rows.call(rows.turn(owner), state=State.AWAITING_SIGN_IN, service=git)
    line = parse(owner_client.get("/approvals/").content.decode()).with_class("open-calls")[0]
    assert ("waiting for an admin" in line.text) is not is_admin


def test_a_line_counts_no_seconds(owner_client: Client, owner: Member) -> None:
    """A list that changed with every second would be painted anew all the time."""
    rows.question(rows.turn(owner), risk="")
    inbox = parse(owner_client.get("/approvals/").content.decode()).one(id=page_values.INBOX_ID)
    assert "Asked just now in “Hello”" in inbox.text
    assert inbox.with_class("badge")[0].text


def test_an_empty_list_says_so(owner_client: Client) -> None:
    main = parse(owner_client.get("/approvals/").content.decode()).one("main")
    assert main.with_class("nothing")[0].text and not main.with_class("open-calls")


def test_a_list_that_is_too_long_says_how_many_more_there_are(
    owner_client: Client, owner: Member
) -> None:
    made = rows.turn(owner)
    calls = [rows.question(made) for _ in range(MAX_SHOWN + 2)]
    main = parse(owner_client.get("/approvals/").content.decode()).one("main")
    lines = [line["id"] for line in main.one("ul").all("a")]
    assert lines == [page_values.waiting_id(call.pk) for call in calls[:MAX_SHOWN]]
    assert "2 more appear" in main.one("section").text


def test_outcomes_that_nobody_settles_are_left_to_the_log(
    owner_client: Client, owner: Member
) -> None:
    sent_at = timezone.now() - OUTCOMES_KEPT
    call = rows.call(rows.turn(owner), {}, State.UNKNOWN, sent_at=sent_at)
    main = parse(owner_client.get("/approvals/").content.decode()).one("main")
    assert main.one("a", href="/log/")
    assert not main.all("a", id=page_values.waiting_id(call.pk))
    assert resolve(owner_client, call, "worked").status_code == 200


def test_an_approval_has_a_page_that_leads_to_its_conversation(
    owner_client: Client, call: ToolCall
) -> None:
    main = parse(owner_client.get(f"/approvals/{call.pk}/").content.decode()).one("main")
    assert main.one(role="group", id=page_values.tool_call_id(call.pk))
    assert main.one("a", href=f"/c/{call.turn.conversation_id}/")


def test_the_page_of_a_decided_approval_shows_what_became_of_it(
    owner_client: Client, call: ToolCall
) -> None:
    decide(owner_client, call, decision="deny")
    main = parse(owner_client.get(f"/approvals/{call.pk}/").content.decode()).one("main")
    assert "denied by owner" in main.text
    assert main.all("form") == []


# --- what comes next -------------------------------------------------------------------------
def test_the_page_of_a_call_offers_the_one_that_waits_longest(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    here, newer, oldest = (rows.question(rows.turn(owner)) for _ in range(3))
    rows.question(rows.turn(stranger))
    Approval.objects.filter(pk=oldest.pk).update(created_at=timezone.now() - timedelta(hours=1))
    offered = _next(owner_client, here)
    assert offered.one("a")["href"] == f"/approvals/{oldest.pk}/"
    assert "2" in offered.one("h2").text
    ToolCall.objects.filter(pk__in=[oldest.pk, newer.pk]).update(state=State.DENIED)
    assert not _next(owner_client, here).all("a")


def _next(client: Client, call: ToolCall) -> Element:
    shown = parse(client.get(f"/approvals/{call.pk}/").content.decode())
    return shown.one(id=page_values.next_id(call.pk))


@pytest.mark.parametrize("place", ["the call's page", "the chat"])
def test_an_answer_leads_back_to_where_it_was_given(
    owner_client: Client, owner: Member, place: str
) -> None:
    call = rows.question(rows.turn(owner))
    alone = place == "the call's page"
    given = f"/approvals/{call.pk}/" if alone else f"/c/{call.turn.conversation_id}/"
    answer = owner_client.post(
        f"/approvals/{call.pk}/decide",
        {"decision": "deny", "version": rows.BINDING},
        headers={"referer": f"http://testserver{given}"},
    )
    assert answer["Location"].partition("#")[0] == given


# --- decided in its row ----------------------------------------------------------------------
def make_plain(
    owner: Member, arguments: dict[str, object] | None = None, **values: Any
) -> ToolCall:
    """A call with a medium risk and short values."""
    made = {"risk": "medium", "why": "Medium risk needs approval.", "reasons": [], "note": ""}
    return rows.question(
        rows.turn(owner, text="Shopping"),
        {"title": "Groceries", "text": "Lemons"} if arguments is None else arguments,
        **{"definition": rows.definition(title="Add to a note"), **made, **values},
    )


def find_row(client: Client) -> Element:
    page = parse(client.get("/approvals/").content.decode())
    return page.with_class("open-calls")[0].all("li")[0]


def test_a_plain_call_is_decided_in_its_row_which_shows_all_of_it(
    owner_client: Client, owner: Member
) -> None:
    call = make_plain(owner)
    row = find_row(owner_client)
    form = row.one("form", class_="row-decision")
    assert [each.text for each in form.all("dt")] == ["title", "text"]
    assert [each.text for each in form.all("dd")] == ["Groceries", "Lemons"]
    assert "Medium risk" in row.text and "Add to a note" in row.text and call.tool_id in row.text
    assert form.one("input", name="version")["value"] == rows.BINDING
    answer = decide(owner_client, call, back="row")
    assert answer.status_code == 200
    changed = parse(answer.content.decode()).one(id=page_values.INBOX_ID)
    assert changed.with_class("just-now")[0].text == "Allowed once: Add to a note Show the call"
    assert changed.all("li") == []
    assert ToolCall.objects.get(pk=call.pk).state == State.APPROVED


def test_a_hasty_decision_in_a_row_is_refused_in_that_row(
    owner_client: Client, owner: Member
) -> None:
    call = make_plain(owner)
    answer = decide(owner_client, call, seconds_ago=-30, back="row")
    assert answer.status_code == 409
    row = parse(answer.content.decode()).with_class("open-calls")[0].all("li")[0]
    assert row.one("p", role="alert").text
    assert row.one("a", autofocus="")["id"] == page_values.waiting_id(call.pk)
    assert ToolCall.objects.get(pk=call.pk).state == State.AWAITING_APPROVAL


def test_a_row_whose_call_was_decided_elsewhere_says_so_above_the_list(
    owner_client: Client, owner: Member
) -> None:
    call = make_plain(owner)
    assert decide(owner_client, call, decision="deny").status_code == 200
    answer = decide(owner_client, call, back="row")
    assert answer.status_code == 409
    said = parse(answer.content.decode()).with_class("just-now")[0].text
    assert said.startswith("Not decided: Add to a note")


SHORT: dict[str, object] = {"title": "Groceries"}


@pytest.mark.parametrize(
    ("arguments", "values", "approval"),
    [
        (SHORT, {"risk": "high"}, {}),
        (SHORT, {"risk": ""}, {}),
        (SHORT, {"note": "Ask Ida first."}, {}),
        (SHORT, {}, {"wants_typing": True}),
        ({"title": "x" * 200}, {}, {}),
        ({"title": "One\nTwo"}, {}, {}),
        ({"title": "Gro\u202eceries"}, {}, {}),
        ({"password": "correct-horse"}, {}, {}),
        ({"tags": ["a", "b"]}, {}, {}),
        (dict.fromkeys("abcde", "x"), {}, {}),
    ],
    ids=["high", "unknown", "note", "typed", "long", "lines", "hidden", "secret", "list", "many"],
)
def test_a_call_that_does_not_fit_its_row_is_decided_on_its_card(
    owner_client: Client,
    owner: Member,
    arguments: dict[str, object],
    values: dict[str, str],
    approval: dict[str, bool],
) -> None:
    make_plain(owner, arguments, **values)
    Approval.objects.update(**approval)
    row = find_row(owner_client)
    assert row.all("form") == row.all("button") == []
    assert row.one("a")["href"].startswith("/approvals/?open=")


def test_a_call_with_values_from_untrusted_content_is_decided_on_its_card(
    owner: Member,
) -> None:
    call = make_plain(owner)
    facts = page_values.CallFacts(copied={"title": "a web page"})
    assert build_row_decision(call, facts) is None
    assert build_row_decision(call, page_values.CallFacts()) is not None
    changed = page_values.CallFacts(definition_before=rows.definition(title="Read a note"))
    assert build_row_decision(call, changed) is None
    assert build_row_decision(call, page_values.CallFacts(copied=None)) is None


def test_a_call_of_a_program_is_decided_on_its_card(owner_client: Client, owner: Member) -> None:
    call = make_plain(owner)
    token = AccessToken.objects.create(
        person=owner, name="Script", prefix="p", expires_at=timezone.now() + timedelta(days=1)
    )
    Turn.objects.filter(pk=call.turn_id).update(token=token, model="")
    assert find_row(owner_client).all("form") == []


def test_a_refusal_is_said_above_the_list_if_its_row_has_no_buttons_any_more(
    owner_client: Client, owner: Member
) -> None:
    call = make_plain(owner)
    ToolCall.objects.update(note="Ask Ida first.")
    answer = decide(owner_client, call, seconds_ago=-30, back="row")
    assert answer.status_code == 409
    page = parse(answer.content.decode())
    assert page.with_class("just-now")[0]["role"] == "alert"


def test_beside_an_open_card_rows_have_no_buttons(owner_client: Client, owner: Member) -> None:
    opened, other = make_plain(owner), make_plain(owner)
    page = parse(owner_client.get(f"/approvals/?open={opened.pk}").content.decode())
    assert page.all("form", class_="row-decision") == []
    assert page.one(id=page_values.waiting_id(other.pk))
