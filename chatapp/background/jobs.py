"""The tasks. Each may run twice, or at the same time in two workers, without harm. Their arguments
are shown in the admin, so they have no secrets."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django_tasks import task

from chatapp.accounts import personal_data
from chatapp.approvals import attention_checks
from chatapp.approvals.reminders import remind_due
from chatapp.audit import anchors, change_entries
from chatapp.context import file_storage
from chatapp.conversations import chat_list
from chatapp.imports import import_acts
from chatapp.journal.db_retry import DATABASE_AWAY
from chatapp.models import (
    JournalEvent,
    Member,
    ProviderDraft,
    PushDevice,
    SecondOpinion,
    Step,
)
from chatapp.notifications import devices, due_notifications, push_messages, push_texts, webhooks
from chatapp.people import sign_in_limits, signals
from chatapp.projects import changes as project_changes
from chatapp.projects import files as project_files
from chatapp.projects import vectors
from chatapp.server.database import in_database
from chatapp.simulation import second_opinions
from mcpconfig.models import ServiceDraft
from mcpconfig.trace import retention

# A day of finished tasks is kept, and two weeks of failed ones.
KEPT_DAYS = 1
FAILED_KEPT_DAYS = 14
EVENTS_KEPT = timedelta(minutes=1)
LEFT_FILES_AT_ONCE = 20
OPINION_PRIORITY = -10


class AnchorNotWritten(Exception):
    """An anchor could not be written to a place. The text does not have the secret parts of its
    address."""


@task
async def send_reminders() -> None:
    """Send the mail that is due. Each mail is claimed by one worker and marked when it was sent."""
    await remind_due()


@task
def look_for_notifications() -> None:
    """Send what people have to be told about the changes of the last minute."""
    _send_notifications(due_notifications.find_people_with_news())


@task
def look_for_all_notifications() -> None:
    """Do the same for all for whom something may wait."""
    _send_notifications(due_notifications.find_all_people())


def _send_notifications(people: Iterable[int]) -> None:
    for person_id in people:
        with transaction.atomic():
            claimed = due_notifications.claim(person_id)
            for each in claimed.pushes:
                for device_id in each.device_ids:
                    push_notifications.enqueue(
                        str(device_id), [str(pk) for pk in each.notification_ids]
                    )
            for notification_id in claimed.posts:
                post_notification.enqueue(str(notification_id))


@task
async def push_notifications(device_id: str, notification_ids: list[str]) -> None:
    """Send one message about these notifications to one device, or a test without any."""
    prepared = await in_database(_prepare_push, device_id, notification_ids)
    if prepared is None:
        return
    try:
        await push_messages.push(*prepared)
    except push_messages.DeviceGone:
        await in_database(devices.drop_dead, uuid.UUID(device_id))


def _prepare_push(
    device_id: str, notification_ids: list[str]
) -> tuple[PushDevice, push_messages.PushMessage] | None:
    """Return the device and the message, or None if one of them is no longer of use."""
    found = PushDevice.objects.filter(pk=device_id).select_related("person").first()
    live = devices.filter_live(found.person) if found and settings.PUSH_NOTIFICATIONS else []
    device = next((each for each in live if str(each.pk) == device_id), None)
    if found is None or device is None:
        return None
    if not notification_ids:
        return device, push_texts.build_test(found.person)
    message = push_texts.build_message(found.person, [uuid.UUID(pk) for pk in notification_ids])
    return (device, message) if message else None


@task
async def post_notification(notification_id: str) -> None:
    """Post one notification to its webhook."""
    await webhooks.post_notification(uuid.UUID(notification_id))


@task
def delete_old_notifications() -> None:
    due_notifications.delete_old()


@task
def write_anchors() -> None:
    """Write the end of the log to each place of LOG_ANCHORS, in a task each."""
    for number in range(len(settings.LOG_ANCHORS)):
        write_anchor.enqueue(number)


@task
def write_anchor(place_number: int) -> None:
    """Write the end of the log to one place. A second anchor of the same end is valid as well."""
    for place in settings.LOG_ANCHORS[place_number : place_number + 1]:
        if failure := anchors.write_to_place(place, anchors.make_anchor()):
            raise AnchorNotWritten(failure)


@task
def prune_events() -> None:
    """Delete the events and signals that every process and tab has seen."""
    clear_journal()
    signals.delete_old_signals()


def has_old_events() -> bool:
    return signals.filter_old_signals().exists() or _filter_old_events().exists()


def clear_journal() -> None:
    """Delete events whose text is stored in parts. Tabs that are further behind get the state."""
    _filter_old_events().delete()


def _filter_old_events() -> QuerySet[JournalEvent]:
    calling = Step.objects.filter(state=Step.State.CALLING).values("turn_id")
    old = JournalEvent.objects.filter(created_at__lt=Now() - EVENTS_KEPT)
    return old.exclude(turn_id__in=calling)


@task
def remove_deleted_chats() -> None:
    """Remove the chats that were deleted a while ago and that nobody can restore any more, and the
    temporary ones whose time is over. Do the same with projects."""
    chat_list.remove_old()
    project_changes.remove_old()


@task
def delete_closed_account(member_id: int) -> None:
    """Delete what a person left who deleted their account, and what was stored meanwhile."""
    member = Member.objects.filter(pk=member_id).first()
    if member is not None:
        personal_data.delete_rows(member)


@task
def read_project_file(file_id: str) -> None:
    """Read the text of a file that was added to a project. A file at which reading itself fails is
    marked, so that its page does not say for ever that it is read."""
    try:
        project_files.read_file(uuid.UUID(file_id))
    except (*DATABASE_AWAY, file_storage.StorageUnavailable):
        # `read_left_files` tries again.
        raise
    except Exception:
        project_files.give_up_reading(uuid.UUID(file_id))
        raise


@task
def read_left_files() -> None:
    """Read the files of projects whose task was lost, such as with its server."""
    project_files.give_up_old()
    for file_id in project_files.filter_left()[:LEFT_FILES_AT_ONCE]:
        read_project_file.enqueue(str(file_id))


def has_left_files() -> bool:
    return project_files.filter_left().exists()


@task
async def make_missing_vectors() -> None:
    """Make vectors of the passages that have none, for the search by meaning."""
    await vectors.make_missing()


@task
def delete_unused_objects() -> None:
    """Delete the objects of the file storage whose files were deleted."""
    file_storage.delete_unused()


def has_unused_objects() -> bool:
    return file_storage.find_unused().exists()


@task
def delete_old_imports() -> None:
    """Delete the uploaded files of imports that nobody finished."""
    import_acts.delete_old_files()


@task
def delete_old_service_drafts() -> None:
    """Delete what admins typed for services and model providers that they did not add; it has
    secrets."""
    ServiceDraft.delete_old()
    ProviderDraft.delete_old()


def ask_for_opinions(asked: Iterable[SecondOpinion]) -> None:
    """Enqueue a task for each of these opinions, in the transaction of the caller. They run after
    all that somebody waits for."""
    behind = give_second_opinion.using(priority=OPINION_PRIORITY)
    for row in asked:
        behind.enqueue(row.definition_id, row.asked_at.isoformat())


@task
async def give_second_opinion(definition_id: int, asked_at: str) -> None:
    await second_opinions.answer(definition_id, datetime.fromisoformat(asked_at))


@task
def ask_about_new_tools() -> None:
    """Ask for a second opinion on new definitions, if the policy wants one on each."""
    with transaction.atomic():
        ask_for_opinions(second_opinions.ask_about_new())


@task
def prune_traces() -> None:
    retention.prune_all()


@task
def delete_expired_sessions() -> None:
    """Delete the sign-ins that have expired; Django only ignores them."""
    SessionStore.clear_expired()


@task
def delete_old_sign_in_failures() -> None:
    sign_in_limits.delete_old_failures()


@task
def expire_attention_checks() -> None:
    attention_checks.expire_old()


@task
def log_lapsed_consents() -> None:
    change_entries.log_lapsed_consents()


@task
def prune_results() -> None:
    """Delete the rows of tasks that ended some time ago."""
    call_command(
        "prune_db_task_results",
        "--queue-name=*",
        min_age_days=KEPT_DAYS,
        failed_min_age_days=FAILED_KEPT_DAYS,
        verbosity=0,
    )
