"""Posts to webhooks: each program's own form, about whom, once, and how failures show."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.background import jobs
from chatapp.background.results import MAX_ATTEMPTS
from chatapp.models import Member, ToolCall, Turn, Webhook
from chatapp.notifications import preferences, webhooks
from tests.chatapp.approvals.test_inbox import signed_first
from tests.peers.notice_board import MATRIX_TOKEN, ROOM, SECRET, NoticeBoard

from .conftest import ends, look, make_old, make_retries_due, run_ready, waits

pytestmark = pytest.mark.django_db(transaction=True)
PLACES = {"slack": "/slack", "teams": "/teams", "matrix": "", "json": "/json"}
SECRETS = {"matrix": MATRIX_TOKEN, "json": SECRET}


@pytest.fixture
def owner(owner: Member) -> Member:
    Member.objects.filter(pk=owner.pk).update(
        first_name="Ada <@all> @room [x](https://evil.example)"
    )
    owner.refresh_from_db()
    return owner


def make_webhook(board: NoticeBoard, kind: str = "json", **values: Any) -> Webhook:
    webhook = Webhook.objects.create(name=kind, format=kind, host="127.0.0.1", room=ROOM, **values)
    webhook.set_address(board.address + PLACES[kind])
    webhook.set_secret(SECRETS.get(kind, ""))
    return webhook


def list_texts(board: NoticeBoard) -> list[str]:
    return [message["text"] for message in board.posted]


@pytest.mark.parametrize("kind", PLACES)
def test_each_program_gets_its_own_form(owner: Member, board: NoticeBoard, kind: str) -> None:
    make_webhook(board, kind)
    waits(owner, "A secret title")
    look()
    look()
    assert board.refused == []
    (message,) = board.posted
    text = str(message)
    assert "Needs your approval" in text
    assert "https://chat.example/notifications/" in text
    assert "secret" not in text.lower()
    # A name that its member chose is no link and no mention.
    if kind == "slack":
        assert "<@all>" not in text
    if kind == "teams":
        assert "[x]" not in message["body"][0]["text"]
    if kind == "matrix":
        assert "<@all>" not in message["formatted_body"]
        assert message["m.mentions"] == {}
    webhook = Webhook.objects.get()
    assert webhook.sent_at is not None
    assert not webhook.is_failing


def test_a_second_attempt_is_the_same_message_to_matrix(owner: Member, board: NoticeBoard) -> None:
    make_webhook(board, "matrix")
    waits(owner)
    look()
    task = DBTaskResult.objects.get(task_path__endswith="post_notification")
    jobs.post_notification.enqueue(*task.args_kwargs["args"])
    run_ready()
    assert len(board.transactions) == 1


@pytest.mark.parametrize("chosen", ["everyone", "group", "member", "others"])
def test_only_the_chosen_are_posted_about(
    owner: Member, stranger: Member, board: NoticeBoard, chosen: str
) -> None:
    webhook = make_webhook(
        board, audience="everyone" if chosen == "everyone" else Webhook.Audience.CHOSEN
    )
    if chosen == "group":
        group = Group.objects.create(name="Operations")
        owner.groups.add(group)
        webhook.groups.add(group)
    if chosen != "everyone" and chosen != "group":
        webhook.members.add(owner if chosen == "member" else stranger)
    waits(owner)
    look()
    assert len(board.posted) == (chosen != "others")


def test_a_member_can_opt_out(owner: Member, stranger: Member, board: NoticeBoard) -> None:
    make_webhook(board)
    preferences.save(owner, {"uses_webhooks": False})
    waits(owner)
    waits(stranger)
    look()
    assert list_texts(board) == ["Needs your approval: stranger"]


def test_answers_are_posted_only_where_an_admin_wants_them(
    owner: Member, board: NoticeBoard
) -> None:
    ends(owner)
    webhook = make_webhook(board)
    look()
    assert board.posted == []
    Webhook.objects.filter(pk=webhook.pk).update(sends_answers=True, sends_waiting=False)
    ends(owner, Turn.State.FAILED)
    waits(owner)
    look()
    kinds = {message["type"] for message in board.posted}
    assert kinds == {"answer.finished", "answer.failed"}


def test_a_second_approval_is_posted_once_and_names_nobody(
    owner: Member, stranger: Member, board: NoticeBoard
) -> None:
    make_webhook(board)
    colleague = Member.objects.create_user("colleague")
    call = signed_first(owner, stranger)
    Group.objects.get().user_set.add(colleague)
    make_old(call)
    look()
    assert list_texts(board) == ["Needs a second approval"]
    assert board.posted[0]["person"] == ""


@pytest.mark.parametrize("case", ["answered", "disabled", "opted out", "inactive", "narrowed"])
def test_nothing_is_posted_about_what_is_over(owner: Member, board: NoticeBoard, case: str) -> None:
    webhook = make_webhook(board)
    call = waits(owner)
    jobs.look_for_all_notifications.call()
    match case:
        case "answered":
            ToolCall.objects.filter(pk=call.pk).update(state=ToolCall.State.DENIED)
        case "disabled":
            Webhook.objects.filter(pk=webhook.pk).update(is_enabled=False)
        case "opted out":
            preferences.save(owner, {"uses_webhooks": False})
        case "inactive":
            Member.objects.filter(pk=owner.pk).update(is_active=False)
        case "narrowed":
            Webhook.objects.filter(pk=webhook.pk).update(audience=Webhook.Audience.CHOSEN)
    run_ready()
    assert board.posted == []


def test_a_failure_is_shown_and_tried_again_until_it_arrives(
    owner: Member, board: NoticeBoard
) -> None:
    webhook = make_webhook(board)
    board.status = 500
    waits(owner)
    look()
    webhook.refresh_from_db()
    assert webhook.is_failing
    assert webhook.failure == "127.0.0.1 answered with the status 500."
    board.status = 0
    make_retries_due()
    run_ready()
    webhook.refresh_from_db()
    assert (webhook.is_failing, webhook.failure, len(board.posted)) == (False, "", 1)


def test_a_webhook_that_stays_away_is_given_up(owner: Member, board: NoticeBoard) -> None:
    make_webhook(board)
    board.status = 500
    waits(owner)
    look()
    for _ in range(MAX_ATTEMPTS):
        make_retries_due()
        run_ready()
    (failed,) = DBTaskResult.objects.filter(status=TaskResultStatus.FAILED)
    assert failed.task_path.endswith("post_notification")
    assert board.address not in failed.traceback
    assert SECRET not in failed.traceback + str(failed.args_kwargs)


def test_an_unreadable_secret_is_a_failure_that_shows(
    owner: Member, board: NoticeBoard, settings: Any
) -> None:
    webhook = make_webhook(board)
    settings.ENCRYPTION_KEYS = ["A" * 43 + "="]
    waits(owner)
    look()
    webhook.refresh_from_db()
    assert webhook.is_failing


def test_a_signature_is_made_as_the_standard_says() -> None:
    """The example of the Standard Webhooks reference."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    signature = webhooks.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
