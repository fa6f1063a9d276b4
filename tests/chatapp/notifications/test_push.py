"""Push messages: encrypted for one browser, about what waits and what ended, and nothing else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.background import jobs
from chatapp.models import (
    Conversation,
    LogEntry,
    Member,
    Notification,
    NotificationPreference,
    PersonSignal,
    PushDevice,
    Question,
    Review,
    ToolCall,
    Turn,
)
from chatapp.notifications import due_notifications, preferences, push_keys
from tests.chatapp.approvals.test_inbox import signed_first
from tests.conftest import signed_in
from tests.peers.notice_board import FakeBrowser, NoticeBoard
from tests.pseudo_locales import LONG, is_translated

from .conftest import (
    LATELY,
    ends,
    get_device,
    look,
    make_old,
    make_retries_due,
    run_ready,
    turn_on,
    waits,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_waits_is_pushed_once_with_the_title_of_its_chat(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    call = waits(owner, "Old ideas")
    look()
    look()
    ((headers, message),) = board.pushed
    assert (message["title"], message["body"]) == ("Needs your approval", "Old ideas")
    assert message["data"] == f"/approvals/{call.pk}/"
    assert headers["urgency"] == "high"
    assert board.refused == []
    # The push service can read none of it, and the device gets no value.
    assert b"Old ideas" not in board.bodies[0]
    assert "secret" not in json.dumps(message)


def test_an_answer_that_nobody_saw_is_pushed(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    done = ends(owner, title="Done")
    failed = ends(owner, Turn.State.FAILED, title="Broken")
    look()
    found = {message["body"]: message for _headers, message in board.pushed}
    assert found["Done"]["title"] == "An answer is finished"
    assert found["Broken"]["title"] == "An answer failed"
    assert found["Done"]["data"] == f"/c/{done.conversation_id}/"
    assert found["Broken"]["data"] == f"/c/{failed.conversation_id}/"


@pytest.mark.parametrize("case", ["open", "stopped", "temporary", "deleted", "program", "not yet"])
def test_an_answer_that_needs_no_notification_is_not_pushed(
    owner: Member, board: NoticeBoard, phone: FakeBrowser, case: str
) -> None:
    turn = ends(owner, Turn.State.STOPPED if case == "stopped" else Turn.State.DONE)
    chats = Conversation.objects.filter(pk=turn.conversation_id)
    active_at = chats.values_list("active_at", flat=True).get()
    match case:
        case "open":  # the open page has stored that the answer was seen
            chats.update(read_at=active_at)
        case "temporary":
            chats.update(is_temporary=True)
        case "deleted":
            chats.update(deleted_at=active_at)
        case "program":
            token = owner.access_tokens.create(name="x", prefix="x", expires_at=active_at)
            Turn.objects.update(token=token)
        case "not yet":
            Turn.objects.update(finished_at=timezone.now())
    look()
    assert board.pushed == []


def test_several_things_are_one_message_to_the_inbox(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    waits(owner, "First")
    waits(owner, "Second")
    look()
    ((_headers, message),) = board.pushed
    assert message["title"] == "2 requests wait for you"
    assert set(message["body"].split(", ")) == {"First", "Second"}
    assert message["data"] == "/approvals/"


def test_titles_can_be_hidden(owner: Member, board: NoticeBoard, phone: FakeBrowser) -> None:
    preferences.save(owner, {"shows_titles": False})
    waits(owner, "Old ideas")
    ends(owner, title="Other ideas")
    look()
    assert len(board.pushed) == 2
    for _headers, message in board.pushed:
        assert (message["title"], message["body"]) == ("Countersign", "Something waits for you.")


@pytest.mark.parametrize("name", ["pushes_waiting", "pushes_answers"])
def test_each_kind_can_be_switched_off(
    owner: Member, board: NoticeBoard, phone: FakeBrowser, name: str
) -> None:
    preferences.save(owner, {name: False})
    waits(owner, "waiting")
    ends(owner, title="answers")
    look()
    kept = {"pushes_waiting": "answers", "pushes_answers": "waiting"}[name]
    assert [message["body"] for _headers, message in board.pushed] == [kept]


def test_a_second_signer_is_not_told_the_title(
    owner: Member, stranger: Member, stranger_client: Client, board: NoticeBoard
) -> None:
    turn_on(board, stranger, stranger_client)
    call = signed_first(owner, stranger)
    make_old(call)
    look()
    ((_headers, message),) = board.pushed
    assert (message["title"], message["body"]) == ("Needs a second approval", "")


def test_what_was_answered_meanwhile_is_not_pushed(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    call = waits(owner)
    jobs.look_for_all_notifications.call()
    ToolCall.objects.filter(pk=call.pk).update(state=ToolCall.State.DENIED)
    run_ready()
    assert board.pushed == []


def test_the_message_is_in_the_language_of_its_person(
    owner: Member, board: NoticeBoard, phone: FakeBrowser, pseudo_locales: None
) -> None:
    Member.objects.update(language=LONG)
    waits(owner)
    look()
    ((_headers, message),) = board.pushed
    assert is_translated(message["title"])


# --- devices that do not receive ------------------------------------------------------------------
@pytest.mark.parametrize("status", [404, 410])
def test_a_device_that_its_service_no_longer_knows_is_removed(
    owner: Member, board: NoticeBoard, phone: FakeBrowser, status: int
) -> None:
    board.status = status
    waits(owner)
    look()
    assert not PushDevice.objects.exists()
    assert LogEntry.objects.latest("position").kind == "notifications.changed"
    assert set(DBTaskResult.objects.values_list("status", flat=True)) == {"SUCCESSFUL"}


def test_a_service_that_is_away_is_tried_again(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    board.status = 503
    waits(owner)
    look()
    assert DBTaskResult.objects.filter(status=TaskResultStatus.READY).count() == 1
    board.status = 0
    make_retries_due()
    run_ready()
    assert len(board.pushed) == 1
    assert PushDevice.objects.count() == 1


@pytest.mark.parametrize("end", ["sign-out", "expired", "password", "inactive", "switched off"])
def test_a_device_gets_nothing_once_nobody_is_signed_in_there(
    owner: Member,
    owner_client: Client,
    board: NoticeBoard,
    phone: FakeBrowser,
    settings: Any,
    end: str,
) -> None:
    waits(owner)
    jobs.look_for_all_notifications.call()
    match end:
        case "sign-out":
            owner_client.post("/sign-out/")
            assert not PushDevice.objects.exists()
        case "expired":
            session = owner_client.session
            session.set_expiry(-1)
            session.save()
        case "password":
            owner.set_password("another-password")
            owner.save()
        case "inactive":
            Member.objects.filter(pk=owner.pk).update(is_active=False)
        case "switched off":
            settings.PUSH_NOTIFICATIONS = False
    run_ready()
    waits(owner, "Later")
    look()
    assert board.pushed == []


def test_nobody_elses_device_is_told(
    owner: Member, stranger: Member, stranger_client: Client, board: NoticeBoard
) -> None:
    turn_on(board, stranger, stranger_client)
    waits(owner)
    ends(owner)
    look()
    assert board.pushed == []


# --- what is looked for ---------------------------------------------------------------------------
def signal(*people: Member) -> None:
    """Something changed for these people a while ago."""
    PersonSignal.objects.bulk_create(PersonSignal(person=each) for each in people)
    PersonSignal.objects.update(created_at=timezone.now() - due_notifications.GRACE * 1.5)


def test_nothing_is_looked_for_where_nobody_can_be_told(owner: Member) -> None:
    signal(owner)
    assert not due_notifications.has_news()
    assert not due_notifications.has_receivers()
    assert due_notifications.find_all_people() == []


def test_a_signal_leads_to_its_person(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    assert not due_notifications.has_news()
    waits(owner)
    signal(owner)
    assert due_notifications.has_news()
    jobs.look_for_notifications.call()
    run_ready()
    assert len(board.pushed) == 1


def test_busy_people_for_whom_nothing_waits_cost_nothing(
    owner: Member, board: NoticeBoard, phone: FakeBrowser, django_assert_max_num_queries: Any
) -> None:
    people = Member.objects.bulk_create(Member(username=f"member{each}") for each in range(50))
    for person in people:
        turn_on(board, person, signed_in(person), person.username)
    signal(owner, *people)
    with django_assert_max_num_queries(8):
        jobs.look_for_notifications.call()
    waits(people[7])
    assert due_notifications.find_people_with_news() == [people[7].pk]


def test_an_answer_that_was_told_is_not_looked_for_again(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    ends(owner)
    assert due_notifications.find_people_with_news() == [owner.pk]
    jobs.look_for_notifications.call()
    assert due_notifications.find_people_with_news() == []


@pytest.mark.parametrize("kind", ["question", "sign-in", "outcome", "review"])
def test_each_kind_that_waits_is_found_without_a_signal(
    owner: Member, board: NoticeBoard, phone: FakeBrowser, kind: str
) -> None:
    call = waits(owner)
    State = ToolCall.State
    states = {"question": State.SENDING, "sign-in": State.AWAITING_SIGN_IN}
    state = states.get(kind, State.UNKNOWN if kind == "outcome" else State.SUCCEEDED)
    soon = timezone.now() + timedelta(hours=1)
    ToolCall.objects.update(state=state, sent_at=timezone.now() - LATELY, waits_until=soon)
    if kind == "outcome":
        Turn.objects.update(state=Turn.State.DONE)
    if kind == "question":
        Question.objects.create(tool_call=call, round=1, requests="{}", expires_at=soon)
        Question.objects.update(created_at=timezone.now() - LATELY)
    if kind == "review":
        Review.objects.create(tool_call=call, binding="x", expires_at=soon)
        Review.objects.update(created_at=timezone.now() - LATELY)
    look()
    assert len(board.pushed) == 1


def test_old_notifications_are_forgotten(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    waits(owner)
    look()
    jobs.delete_old_notifications.call()
    assert Notification.objects.count() == 1
    Notification.objects.update(created_at="2020-01-01T00:00Z")
    jobs.delete_old_notifications.call()
    assert not Notification.objects.exists()


# --- keys -----------------------------------------------------------------------------------------
def test_a_device_keeps_its_key_when_another_is_made(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    first = get_device().key
    assert push_keys.rotate_key(drops_devices=False) == 0
    assert push_keys.get_newest().public_key != first.public_key
    waits(owner)
    look()
    ((headers, _message),) = board.pushed
    assert f"k={first.public_key}" in headers["authorization"]


def test_a_lost_key_takes_its_devices_along(
    owner: Member, board: NoticeBoard, phone: FakeBrowser
) -> None:
    assert push_keys.rotate_key(drops_devices=True) == 1
    assert not PushDevice.objects.exists()


def test_choices_are_logged(owner: Member) -> None:
    preferences.save(owner, {"shows_titles": False, "pushes_waiting": True})
    entry = LogEntry.objects.latest("position")
    changed = json.loads(entry.data)["changed"]
    assert changed == {"shows_titles": {"before": True, "after": False}}
    assert NotificationPreference.of(owner).pushes_waiting
    count = LogEntry.objects.count()
    preferences.save(owner, {"shows_titles": False})
    assert LogEntry.objects.count() == count
