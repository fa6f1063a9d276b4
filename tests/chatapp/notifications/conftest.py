"""A board that notifications arrive at, and a person with a phone."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.background import jobs
from chatapp.background.worker import BackgroundWorker
from chatapp.models import Approval, JournalEvent, Member, PushDevice, ToolCall, Turn
from chatapp.notifications import devices
from tests.peers.notice_board import FakeBrowser, NoticeBoard, notice_board
from tests.turns import rows

LATELY = timedelta(seconds=30)


@pytest.fixture
def board(settings: Any) -> Iterator[NoticeBoard]:
    with notice_board(settings) as opened:
        yield opened


@pytest.fixture
def phone(board: NoticeBoard, owner: Member, owner_client: Client) -> FakeBrowser:
    """The owner's phone, where push is on."""
    return turn_on(board, owner, owner_client)


def turn_on(board: NoticeBoard, person: Member, client: Client, name: str = "phone") -> FakeBrowser:
    browser = board.open_browser(name)
    key = client.session.session_key or ""
    devices.add(person, key, "Chrome on Android", browser.subscription, is_phone=True)
    return browser


def get_device() -> PushDevice:
    return PushDevice.objects.select_related("key", "person").get()


def waits(person: Member, title: str = "Old ideas", ago: timedelta = LATELY) -> ToolCall:
    """A call that has waited for approval for so long, with a value that nobody is told."""
    call = rows.question(rows.turn(person, text=title), {"title": "A secret value"})
    Approval.objects.filter(pk=call.pk).update(created_at=timezone.now() - ago)
    return call


def make_old(call: ToolCall) -> None:
    """Its person approved it a while ago."""
    Approval.objects.filter(pk=call.pk).update(first_at=timezone.now() - LATELY)


def ends(
    person: Member, state: str = Turn.State.DONE, title: str = "Old ideas", **values: Any
) -> Turn:
    """A turn that ended a while ago in a chat that nobody had open."""
    now = timezone.now()
    turn = rows.turn(person, state, text=title, **values)
    Turn.objects.filter(pk=turn.pk).update(finished_at=now - LATELY)
    chat = turn.conversation
    type(chat).objects.filter(pk=chat.pk).update(
        active_at=now - LATELY, read_at=now - timedelta(minutes=1)
    )
    JournalEvent.objects.create(
        conversation=chat, seq=8, turn=turn, kind=JournalEvent.Kind.TURN, data={"state": state}
    )
    return turn


def run_ready() -> None:
    """Run the tasks that are ready, and those that they enqueue."""
    BackgroundWorker(runs_tasks=True)._worker.run()


def look(find: Callable[[], None] = jobs.look_for_all_notifications.call) -> None:
    find()
    jobs.look_for_notifications.call()
    run_ready()


def make_retries_due() -> None:
    DBTaskResult.objects.ready().update(run_after=timezone.now())
    DBTaskResult.objects.update(run_after=timezone.now())
