"""Attention checks look like approvals, send nothing, and are named after the answer."""

import io
import json
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.translation import override

from chatapp.accounts import personal_data
from chatapp.approvals import attention_checks
from chatapp.approvals.inbox import count_waiting, list_all_waiting, list_waiting
from chatapp.consumers import parse_elements, render_elements
from chatapp.models import (
    Approval,
    AttentionCheck,
    HousePolicy,
    LogEntry,
    Member,
    PersonSignal,
    ToolCall,
    Turn,
)
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.simulation.attention import measure_attention, sum_attention
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
State = AttentionCheck.State
EACH = 10


def approve(person: Member, count: int = 1) -> None:
    for _ in range(count):
        call = rows.question(rows.turn(person, Turn.State.DONE), {}, service=rows.service())
        Approval.objects.filter(pk=call.pk).update(
            state="granted", decided_by=person, decided_at=timezone.now()
        )
        ToolCall.objects.filter(pk=call.pk).update(state="succeeded")


@pytest.fixture
def busy(owner: Member) -> Member:
    """Somebody who approved enough for a check, and whose approval is wanted for a real call."""
    HousePolicy(check_each=EACH).save()
    approve(owner, 2 * EACH)
    rows.question(rows.turn(owner), {"name": "real"})
    return owner


@pytest.fixture
def check(busy: Member) -> AttentionCheck:
    found = attention_checks.place(busy)
    assert found is not None
    return found


def answer(
    client: Client, check: AttentionCheck, decision: str, age: float = 5, **more: Any
) -> Any:
    shown_at = fragments.sign_shown_at(check.pk, timezone.now().timestamp() - age)
    data = {"decision": decision, "version": check.pk.hex, "shown_at": shown_at, "back": "inbox"}
    return client.post(f"/approvals/{check.pk}/decide", {**data, **more}, follow=True)


# --- when it is placed -------------------------------------------------------------------------
def test_a_check_is_placed_beside_a_real_request(busy: Member) -> None:
    html = signed_in(busy).get("/approvals/").content.decode()
    check = AttentionCheck.objects.get()
    assert html.count('data-risk="') == 2 and f"open={check.pk}" in html
    signed_in(busy).get("/approvals/")
    assert AttentionCheck.objects.count() == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda: HousePolicy.objects.update(check_each=None),
        lambda: HousePolicy.objects.update(check_each=1_000),
        lambda: ToolCall.objects.filter(state="awaiting_approval").update(state="denied"),
        lambda: Approval.objects.update(decided_at=timezone.now() - timedelta(days=99)),
    ],
    ids=["off", "too few approvals", "nothing real waits", "long ago"],
)
def test_otherwise_none_is_placed(busy: Member, change: Any) -> None:
    change()
    assert attention_checks.place(busy) is None


def test_there_is_one_a_week_at_most(check: AttentionCheck, busy: Member) -> None:
    attention_checks.answer(check, "denied")
    approve(busy, 3 * EACH)
    assert attention_checks.place(busy) is None
    AttentionCheck.objects.update(created_at=timezone.now() - timedelta(days=8))
    assert attention_checks.place(busy) is not None


def test_by_default_there_are_none() -> None:
    assert HousePolicy().check_each is None


# --- what it looks like ------------------------------------------------------------------------
def test_its_card_is_that_of_a_real_request(check: AttentionCheck, busy: Member) -> None:
    html = signed_in(busy).get(f"/approvals/?open={check.pk}").content.decode()
    assert "The assistant wants to run" in html and "Share a folder" in html
    assert "intake@partner-mail.example" in html and "Demo notebook" in html
    assert f'action="/approvals/{check.pk}/decide"' in html and "Allow once" in html
    assert "ttention check" not in html


def test_nobody_else_sees_or_answers_it(check: AttentionCheck, stranger_client: Client) -> None:
    assert stranger_client.get(f"/approvals/?open={check.pk}").status_code == 404
    assert answer(stranger_client, check, "run").status_code == 404
    check.refresh_from_db()
    assert check.state == State.OPEN


def test_the_number_of_the_sidebar_does_not_give_it_away(
    check: AttentionCheck, busy: Member
) -> None:
    assert count_waiting(busy) == sum(group.count for group in list_waiting(busy)) == 2
    attention_checks.answer(check, "denied")
    assert count_waiting(busy) == sum(group.count for group in list_waiting(busy)) == 1


def test_one_that_expired_is_not_counted(check: AttentionCheck, busy: Member) -> None:
    AttentionCheck.objects.update(expires_at=timezone.now())
    assert count_waiting(busy) == 1


def test_it_is_in_no_mail_notification_or_batch(check: AttentionCheck, busy: Member) -> None:
    assert check.pk not in {each.call_id for each in list_all_waiting(busy)}
    client = signed_in(busy)
    client.post("/approvals/decide", {"call": [str(check.pk)], "decision": "run"})
    assert client.get(f"/approvals/{check.pk}/").status_code == 404
    check.refresh_from_db()
    assert check.state == State.OPEN


# --- the answer --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("decision", "state"),
    [("run", "allowed"), ("always", "allowed"), ("change", "allowed"), ("deny", "denied")],
)
def test_any_answer_is_followed_by_the_truth_and_by_nothing_else(
    check: AttentionCheck, busy: Member, decision: str, state: str
) -> None:
    before = [model.objects.count() for model in (ToolCall, Approval, Turn)]
    html = answer(signed_in(busy), check, decision).content.decode()
    assert "This was an attention check. Nothing would have been sent." in html
    check.refresh_from_db()
    assert check.state == state
    assert [model.objects.count() for model in (ToolCall, Approval, Turn)] == before
    assert ToolCall.objects.filter(sent_at__isnull=False).count() == 0


def test_a_page_with_scripts_shows_it_in_place_of_the_card(
    check: AttentionCheck, busy: Member
) -> None:
    shown_at = fragments.sign_shown_at(check.pk, timezone.now().timestamp() - 5)
    answered = signed_in(busy).post(
        f"/approvals/{check.pk}/decide",
        {"decision": "run", "version": "x", "shown_at": shown_at},
        headers={"HX-Request": "true"},
    )
    html = answered.content.decode()
    assert "This was an attention check" in html and f'id="tool-call-{check.pk}"' in html


@pytest.mark.parametrize(
    ("fields", "age"), [({}, 0), ({"shown_at": "forged"}, 5), ({"scope": "perhaps"}, 5)]
)
def test_a_hasty_or_broken_answer_is_refused_as_for_a_real_request(
    check: AttentionCheck, busy: Member, fields: dict[str, str], age: float
) -> None:
    answered = answer(signed_in(busy), check, "run", age=age, **fields)
    assert answered.status_code in (409, 422)
    check.refresh_from_db()
    assert check.state == State.OPEN


def test_the_first_answer_counts(check: AttentionCheck, busy: Member) -> None:
    assert attention_checks.answer(check, "allowed")
    assert not attention_checks.answer(check, "denied")
    check.refresh_from_db()
    assert check.state == State.ALLOWED
    assert answer(signed_in(busy), check, "deny").status_code == 404


def test_a_later_answer_is_told_what_the_first_was(check: AttentionCheck, busy: Member) -> None:
    late = AttentionCheck.objects.get()
    attention_checks.answer(check, "allowed")
    assert not attention_checks.answer(late, "denied")
    assert late.state == State.ALLOWED


def test_the_log_of_the_person_does_not_name_it_before_the_answer(
    check: AttentionCheck, busy: Member
) -> None:
    client = signed_in(busy)
    assert LogEntry.objects.filter(kind=LogEntry.Kind.ATTENTION_CHECK).exists()
    assert "There is no such call" not in client.get("/log/").content.decode()
    answer(client, check, "deny")
    html = client.get("/log/").content.decode()
    assert "Placed in the inbox. There is no such call." in html
    assert "Denied. There is no such call." in html


def test_it_is_in_the_persons_data_after_the_answer(check: AttentionCheck, busy: Member) -> None:
    def download() -> list[dict[str, Any]]:
        target = io.BytesIO()
        personal_data.write_archive(busy, target, "https://chat.test")
        with zipfile.ZipFile(target) as archive:
            found: list[dict[str, Any]] = json.loads(archive.read("attention_checks.json"))
        return found

    assert download() == []
    attention_checks.answer(check, "denied")
    (told,) = download()
    assert (told["tool"], told["state"]) == ("share_folder", "denied") and told["answered_at"]


def test_it_goes_with_the_account(check: AttentionCheck, busy: Member) -> None:
    personal_data.close_account(busy)
    personal_data.delete_rows(busy)
    assert not AttentionCheck.objects.exists()


def test_the_log_says_what_it_is(check: AttentionCheck, busy: Member, stranger: Member) -> None:
    answer(signed_in(busy), check, "run")
    entries = LogEntry.objects.filter(kind=LogEntry.Kind.ATTENTION_CHECK).order_by("position")
    told = [(each.actor_name, json.loads(each.data)["act"]) for each in entries]
    assert told == [("", "placed"), ("owner", "allowed")]
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.GRANTED).exists()
    assert all(each.call_id is None for each in entries)
    html = signed_in(busy).get("/log/").content.decode()
    assert "Nothing was sent: there is no such call" in html


def test_one_that_nobody_answers_expires(check: AttentionCheck, busy: Member) -> None:
    AttentionCheck.objects.update(expires_at=timezone.now())
    assert signed_in(busy).get(f"/approvals/?open={check.pk}").status_code == 404
    assert attention_checks.has_old()
    attention_checks.expire_old()
    check.refresh_from_db()
    assert check.state == State.EXPIRED and not attention_checks.has_old()


# --- the results -------------------------------------------------------------------------------
def test_results_are_by_person_and_in_all(
    owner: Member, stranger: Member, admin_client: Client
) -> None:
    now = timezone.now()
    for person, state, seconds in (
        (owner, "allowed", 1),
        (owner, "allowed", 9),
        (owner, "denied", 1),
        (stranger, "expired", None),
        (stranger, "open", None),
    ):
        AttentionCheck.objects.create(
            person=person,
            state=state,
            service="x",
            tool="share_folder",
            arguments={},
            created_at=now,
            expires_at=now + timedelta(days=1),
            shown_at=now,
            answered_at=None if seconds is None else now + timedelta(seconds=seconds),
        )
    found = measure_attention(now - timedelta(days=1))
    told = [(e.label, e.placed, e.quick, e.allowed, e.denied, e.expired) for e in found]
    assert told == [("owner", 3, 1, 2, 1, 0), ("stranger", 2, 0, 0, 0, 1)]
    total = sum_attention(found)
    assert (total.placed, total.quick, total.allowed) == (5, 1, 2)
    html = admin_client.get("/admin/chatapp/policyrule/questions/").content.decode()
    assert "Attention checks" in html


def test_members_are_told_that_there_are_checks(busy: Member) -> None:
    client = signed_in(busy)
    assert "Your admins use attention checks" in client.get("/consents/").content.decode()
    HousePolicy.objects.update(check_each=None)
    assert "attention checks" not in client.get("/consents/").content.decode()


def test_only_an_admin_of_policy_switches_them_on(stranger: Member) -> None:
    stranger.is_staff, stranger.rights = True, ["services"]
    stranger.save()
    answered = signed_in(stranger).post("/admin/chatapp/housepolicy/1/change/", {"check_each": 9})
    assert answered.status_code == 403 and HousePolicy.current().check_each is None


# --- in a chat ---------------------------------------------------------------------------------
def get_waiting_call() -> ToolCall:
    return ToolCall.objects.get(state="awaiting_approval")


def open_chat(person: Member, call: ToolCall, **headers: str) -> Element:
    answer = signed_in(person).get(f"/c/{call.turn.conversation_id}/", headers=headers)
    html = answer.content.decode()
    return parse(html).one(id=page_values.MORE_ID)


def read_frame(person: Member, call: ToolCall) -> str:
    """What a page that is open gets."""
    elements = parse_elements([page_values.MORE_ID])
    return render_elements(person.pk, call.turn.conversation_id, elements)[page_values.MORE_ID]


def test_a_chat_that_waits_for_approval_shows_it_as_a_real_request(busy: Member) -> None:
    call = get_waiting_call()
    shown = open_chat(busy, call)
    check = AttentionCheck.objects.get()
    card = shown.one("section", id=page_values.tool_call_id(check.pk))
    assert "The assistant wants to run Share a folder" in card.text
    assert card.one("form", action=f"/approvals/{check.pk}/decide")
    assert "ttention check" not in shown.text
    assert check.shown_at is not None
    assert str(check.pk) in signed_in(busy).get("/approvals/").content.decode()


def test_an_open_page_of_the_chat_gets_it_too(busy: Member) -> None:
    html = read_frame(busy, get_waiting_call())
    check = AttentionCheck.objects.get()
    assert page_values.tool_call_id(check.pk) in html
    assert "Share a folder" in html
    assert AttentionCheck.objects.count() == 1


def test_no_other_chat_and_no_other_person_sees_it(
    check: AttentionCheck, busy: Member, stranger: Member
) -> None:
    other = rows.turn(busy, Turn.State.DONE)
    done = signed_in(busy).get(f"/c/{other.conversation_id}/").content.decode()
    assert str(check.pk) not in done
    elements = parse_elements([page_values.MORE_ID])
    for person, chat in ((busy, other.conversation_id), (busy, None)):
        assert str(check.pk) not in "".join(render_elements(person.pk, chat, elements).values())
    call = get_waiting_call()
    assert str(check.pk) not in read_frame(stranger, call)


@pytest.mark.parametrize(
    "change",
    [
        lambda: HousePolicy.objects.update(check_each=None),
        lambda: Approval.objects.filter(state="open").update(first_at=timezone.now()),
    ],
    ids=["off", "waits for somebody else"],
)
def test_otherwise_a_chat_has_none(busy: Member, change: Any) -> None:
    change()
    call = get_waiting_call()
    assert open_chat(busy, call).text == ""
    assert not AttentionCheck.objects.exists()


def test_the_chat_says_what_it_was_for_a_few_minutes(check: AttentionCheck, busy: Member) -> None:
    call = get_waiting_call()
    shown_at = fragments.sign_shown_at(check.pk, timezone.now().timestamp() - 5)
    data = {"decision": "deny", "version": check.pk.hex, "shown_at": shown_at}
    told = signed_in(busy).post(
        f"/approvals/{check.pk}/decide", data, headers={"HX-Request": "true"}
    )
    assert "This was an attention check." in told.content.decode()
    assert "This was an attention check." in read_frame(busy, call)
    assert "This was an attention check." in open_chat(busy, call).text
    ToolCall.objects.filter(pk=call.pk).update(state="denied")
    assert "This was an attention check." in read_frame(busy, call)
    AttentionCheck.objects.update(answered_at=timezone.now() - timedelta(minutes=6))
    assert "attention check" not in read_frame(busy, call)


def test_pages_hear_of_it_when_it_is_placed_and_answered(check: AttentionCheck) -> None:
    assert PersonSignal.objects.filter(person=check.person).count() == 1
    attention_checks.answer(check, "denied")
    assert PersonSignal.objects.filter(person=check.person).count() == 2


# --- in the language of the person -------------------------------------------------------------
def test_every_check_is_translated(busy: Member) -> None:
    """All texts and all values that are words, and with the same risk."""
    for tool in attention_checks.TOOLS:
        AttentionCheck.objects.all().delete()
        with override("de"):
            found = attention_checks.place(busy)
            assert found is not None
            AttentionCheck.objects.filter(pk=found.pk).update(tool=tool.name)
            found.refresh_from_db()
            german = attention_checks.build_call(found)
        english = attention_checks.build_call(found)
        assert german.definition and english.definition
        assert german.definition.title != english.definition.title == tool.title
        assert german.definition.description != english.definition.description
        assert (german.risk, german.reasons) == (english.risk, english.reasons)


def test_a_german_chat_asks_in_german(busy: Member) -> None:
    shown = open_chat(busy, get_waiting_call(), accept_language="de")
    check = AttentionCheck.objects.get()
    assert check.arguments["folder"] == "Verträge"
    assert check.arguments["share_with"] == "intake@partner-mail.example"
    assert "Ordner freigeben" in shown.text
    assert "Share a folder" not in shown.text
