"""What waits for a person: of each kind, for nobody else, and no longer once it is answered."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone

from chatapp.approvals import inbox
from chatapp.approvals.inbox import (
    count_old_outcomes,
    count_waiting,
    list_all_waiting,
    list_others,
    list_waiting,
)
from chatapp.journal import journal
from chatapp.models import Approval, Member, Question, Review, SecondSignature, ToolCall
from chatapp.people.signals import KEPT, delete_old_signals, load_marks, notify
from chatapp.rendering.pages.inbox import WaitingCall, render_inbox
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State
SOON = timedelta(hours=1)


@pytest.fixture
def stranger(owner: Member) -> Member:
    return Member.objects.create_user("stranger")


@pytest.fixture
def approver(owner: Member) -> Member:
    return Member.objects.create_user("approver")


def signed_first(person: Member, approver: Member) -> ToolCall:
    """A call that its person has signed, and that this approver may sign second."""
    group = Group.objects.create(name="Operations")
    group.user_set.add(approver)
    second = SecondSignature.objects.create(name="Four eyes", approvers=group)
    call = rows.question(rows.turn(person))
    Approval.objects.filter(pk=call.pk).update(
        second=second, first_by=person, first_at=timezone.now()
    )
    return call


def asked(person: Member, state: str = State.AWAITING_INPUT, **values: Any) -> ToolCall:
    call = rows.call(rows.turn(person), state=state)
    at = timezone.now() + SOON
    Question.objects.create(tool_call=call, round=1, expires_at=at, **values)
    return call


def reviewed(person: Member) -> ToolCall:
    call = rows.call(rows.turn(person))
    Review.objects.create(tool_call=call, binding="b", expires_at=timezone.now() + SOON)
    return call


def listed(person: Member) -> list[WaitingCall]:
    return [each for pile in list_waiting(person) for each in pile.waiting]


def kinds(person: Member) -> list[str]:
    found: list[str] = [each.kind for each in listed(person)]
    assert len(found) == count_waiting(person)
    assert [each.kind for each in list_all_waiting(person)] == found
    return found


def test_everything_that_waits_is_there_by_what_is_wanted(
    owner: Member, approver: Member, stranger: Member
) -> None:
    reviewed(owner)
    rows.call(rows.turn(owner), state=State.UNKNOWN)
    rows.call(rows.turn(owner), state=State.AWAITING_SIGN_IN)
    asked(owner)
    asked(owner, State.SENDING, source=Question.Source.LIVE)
    rows.question(rows.turn(owner))
    assert kinds(owner) == ["approval", "question", "question", "sign_in", "outcome", "review"]
    assert kinds(stranger) == []
    assert kinds(approver) == []


def test_what_is_answered_or_waits_for_somebody_else_is_not_there(owner: Member) -> None:
    call = asked(owner)
    Question.objects.filter(tool_call=call).update(state=Question.State.ANSWERED)
    Review.objects.filter(pk=reviewed(owner).pk).update(state=Review.State.GIVEN)
    for state in [*ToolCall.FINAL, State.PROPOSED, State.SENDING, State.AWAITING_TASK]:
        rows.call(rows.turn(owner), state=state)
    assert kinds(owner) == []


def test_a_second_signature_waits_for_the_approver_and_not_for_who_has_signed(
    owner: Member, approver: Member, stranger: Member
) -> None:
    call = signed_first(owner, approver)
    assert (kinds(owner), kinds(approver), kinds(stranger)) == ([], ["second"], [])
    Approval.objects.filter(pk=call.pk).update(first_at=None)
    assert (kinds(owner), kinds(approver)) == (["approval"], [])


def test_the_oldest_is_first_and_each_says_until_when(owner: Member) -> None:
    first, second = rows.question(rows.turn(owner)), rows.question(rows.turn(owner))
    earlier = timezone.now() - SOON
    Approval.objects.filter(pk=second.pk).update(created_at=earlier)
    found = listed(owner)
    assert [each.call for each in found] == [second, first]
    assert found[0].since == earlier
    assert found[0].expires_at == Approval.objects.get(pk=second.pk).expires_at
    lost = rows.call(rows.turn(owner), state=State.UNKNOWN)
    untimed = listed(owner)[-1]
    assert (untimed.call, untimed.since, untimed.expires_at) == (lost, None, None)


def test_a_long_list_shows_its_oldest_and_counts_the_others(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_SHOWN", 2)
    calls = [rows.question(rows.turn(owner)) for _ in range(4)]
    rows.call(rows.turn(owner), state=State.AWAITING_SIGN_IN)
    approvals, sign_ins = list_waiting(owner)
    assert [each.call for each in approvals.waiting] == calls[:2]
    assert (approvals.count, approvals.more) == (4, 2)
    assert (sign_ins.kind, sign_ins.count, sign_ins.more) == ("sign_in", 1, 0)
    assert len(list_all_waiting(owner)) == count_waiting(owner) == 5


def test_a_list_costs_few_queries_however_much_waits(
    owner: Member, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_SHOWN", 9)
    for _ in range(10):
        asked(owner)
        rows.question(rows.turn(owner))
    with django_assert_max_num_queries(2 * len(inbox.SOURCES) + 1):
        render_inbox(list_waiting(owner), old_outcomes=0)


def test_what_comes_next_is_another_call(owner: Member) -> None:
    first, second, third = (rows.question(rows.turn(owner)) for _ in range(3))
    (pile,) = list_others(owner, first.pk)
    assert [each.call for each in pile.waiting] == [second]
    assert pile.count == 2
    assert [each.call for each in list_others(owner, third.pk)[0].waiting] == [first]


def test_a_question_that_is_answered_while_the_list_is_made_harms_nothing(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(owner)
    found = inbox._load_calls

    def answered_meanwhile(ids: Any) -> dict[uuid.UUID, ToolCall]:
        Question.objects.update(state=Question.State.ANSWERED)
        return found(ids)

    monkeypatch.setattr(inbox, "_load_calls", answered_meanwhile)
    assert "Needs your answer" in render_inbox(list_waiting(owner), old_outcomes=0)
    assert list_waiting(owner) == []


def test_an_outcome_that_nobody_settles_leaves_the_list_and_is_counted(
    owner: Member, stranger: Member
) -> None:
    now = timezone.now()
    rows.call(rows.turn(owner), state=State.UNKNOWN, sent_at=now - inbox.OUTCOMES_KEPT)
    recent = rows.call(rows.turn(owner), state=State.UNKNOWN, sent_at=now)
    assert [each.call for each in listed(owner)] == [recent]
    assert (count_old_outcomes(owner), count_old_outcomes(stranger), count_waiting(owner)) == (
        1,
        0,
        1,
    )


# --- signals -----------------------------------------------------------------------------------
def told(*people: Member) -> list[bool]:
    return [each.pk in load_marks([each.pk]) for each in people]


def test_a_call_that_moves_tells_its_person_and_who_may_sign_it(
    owner: Member, approver: Member, stranger: Member
) -> None:
    call = rows.question(rows.turn(owner))
    journal.append_call(call.turn, call.pk, State.AWAITING_APPROVAL)
    assert told(owner, approver, stranger) == [True, False, False]
    call = signed_first(owner, approver)
    journal.append_call(call.turn, call.pk, State.AWAITING_APPROVAL)
    assert told(owner, approver, stranger) == [True, True, False]


def test_words_of_an_answer_tell_nobody(owner: Member) -> None:
    turn = rows.turn(owner)
    words = journal.Entry(kind=journal.Kind.TEXT, data={"message": str(turn.answer_id)})
    journal.append(turn.conversation_id, turn.pk, [words, journal.turn_entry(turn, "running")])
    assert told(owner) == [False]


def test_each_signal_changes_the_mark_whatever_was_cleared_before(
    owner: Member, stranger: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for _ in range(3):
        notify(owner.pk, owner.pk)
        seen.add(load_marks([owner.pk, stranger.pk])[owner.pk])
    assert len(seen) == 3
    delete_old_signals()
    assert load_marks([owner.pk])[owner.pk] in seen
    monkeypatch.setattr("chatapp.people.signals.KEPT", -KEPT)
    delete_old_signals()
    assert load_marks([owner.pk]) == {}
    notify(owner.pk)
    assert load_marks([owner.pk])[owner.pk] not in seen


def test_the_number_on_every_page_costs_one_query_that_reads_no_call_which_does_not_wait(
    owner: Member, approver: Member, django_assert_num_queries: Any
) -> None:
    reviewed(owner)
    rows.call(rows.turn(owner), state=State.UNKNOWN)
    rows.call(rows.turn(owner), state=State.AWAITING_SIGN_IN)
    rows.call(rows.turn(owner), state=State.SUCCEEDED)
    asked(owner)
    rows.question(rows.turn(owner))
    signed_first(owner, approver)
    with django_assert_num_queries(1) as counted:
        assert count_waiting(owner) == 5
    assert count_waiting(approver) == 1
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {counted.captured_queries[0]['sql']}")
            plan = [step for *_numbers, step in cursor.fetchall()]
        assert sum("INDEX calls_that_wait" in step for step in plan) == 3
        assert not [step for step in plan if "chatapp_conversation_owner" in step], plan
