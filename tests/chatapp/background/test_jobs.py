"""What each task does, and that a second run does no harm."""

import uuid
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.background import jobs
from chatapp.models import JournalEvent, Member, PersonSignal, Turn
from mcpconfig.models import Exchange, Service, ServiceDraft

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = "2020-01-01T00:00Z"


def test_the_journal_of_a_step_that_is_being_said_is_kept(turn: Turn) -> None:
    """The page's words are in it, and so is the count of its attempts."""
    step = turn.steps.create(number=1)
    JournalEvent.objects.update(created_at=LONG_AGO)
    jobs.prune_events.call()
    assert turn.journal.exists()
    step.state = "done"
    step.save(update_fields=["state"])
    jobs.prune_events.call()
    jobs.prune_events.call()
    assert not turn.journal.exists()


def test_signals_that_every_process_has_seen_are_deleted(owner: Member) -> None:
    old, new = (PersonSignal.objects.create(person=owner) for _ in range(2))
    PersonSignal.objects.filter(pk=old.pk).update(created_at=LONG_AGO)
    jobs.prune_events.call()
    assert list(PersonSignal.objects.values_list("pk", flat=True)) == [new.pk]


def test_old_traces_are_dropped_also_of_services_that_nobody_uses() -> None:
    quiet = Service.objects.create(
        name="quiet", url="https://quiet.example/", visibility="everyone"
    )
    off = Service.objects.create(
        name="off", url="https://off.example/", is_enabled=False, visibility="everyone"
    )
    for service in (quiet, off):
        Exchange.objects.create(service=service, operation="x", operation_id=uuid.uuid4())
    Exchange.objects.update(created_at=timezone.now() - timedelta(days=15))
    young = Exchange.objects.create(service=quiet, operation="x", operation_id=uuid.uuid4())
    jobs.prune_traces.call()
    assert Exchange.objects.get() == young


def test_expired_sessions_are_deleted_and_no_others() -> None:
    now = timezone.now()
    for key, days in (("expired", -1), ("valid", 1)):
        Session.objects.create(
            session_key=key, session_data="", expire_date=now + timedelta(days=days)
        )
    jobs.delete_expired_sessions.call()
    assert Session.objects.get().session_key == "valid"


def test_drafts_of_services_are_deleted_after_a_day(owner: Member) -> None:
    old, young = (ServiceDraft.objects.create(person=owner, secrets=b"sealed") for _ in range(2))
    day_ago = timezone.now() - timedelta(days=1, minutes=1)
    ServiceDraft.objects.filter(pk=old.pk).update(created_at=day_ago)
    jobs.delete_old_service_drafts.call()
    assert ServiceDraft.objects.get() == young


def test_old_results_are_deleted_and_tasks_that_wait_are_kept() -> None:
    days = {
        TaskResultStatus.SUCCESSFUL: (0.5, 2),
        TaskResultStatus.FAILED: (13, 15),
        TaskResultStatus.READY: (100,),
    }
    for status, ages in days.items():
        for age in ages:
            result = jobs.prune_events.enqueue()
            at = timezone.now() - timedelta(days=age)
            DBTaskResult.objects.filter(pk=result.id).update(status=status, finished_at=at)
    jobs.prune_results.call()
    left = DBTaskResult.objects.values_list("status", flat=True)
    assert sorted(left) == ["FAILED", "READY", "SUCCESSFUL"]
