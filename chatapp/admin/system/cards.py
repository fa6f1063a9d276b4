"""The cards of the page about the system. Each row has a name, a value and a note."""

import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db import connection
from django.db.models import Count, Min, Q, Sum
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.admin.overview.needs import find_altered_entry
from chatapp.admin.overview.running import count_running
from chatapp.audit.anchors import describe_place
from chatapp.audit.audit_log import read_end
from chatapp.audit.last_runs import (
    BACKUP,
    BACKUP_OVERDUE,
    get_anchor_overdue,
    is_overdue,
    load_runs,
    name_anchor,
)
from chatapp.background.heartbeat import DEAD_AFTER
from chatapp.background.jobs import KEPT_DAYS
from chatapp.background.results import LATE_AFTER, is_in_database
from chatapp.background.schedule import RECURRING
from chatapp.models import (
    Attachment,
    LastRun,
    Member,
    ProjectFile,
    StoredObject,
    TaskSchedule,
    Worker,
)
from chatapp.models.conversations.conversation import RESTORABLE, TEMPORARY_KEPT
from mcpconfig.management.database import list_pending_migrations
from mcpconfig.values.version import VERSION

PACKAGES = {
    "Django": "Django",
    "Channels": "channels",
    "MCP SDK": "mcp",
    "OpenAI SDK": "openai",
    "Anthropic SDK": "anthropic",
    "Google SDK": "google-genai",
    "AWS SDK": "boto3",
}
# What each recurring task does, by its name.
TASKS = {
    "send_reminders": _lazy("Send email reminders"),
    "write_anchors": _lazy("Write anchors of the log"),
    "look_for_notifications": _lazy("Look for what to notify members of"),
    "look_for_all_notifications": _lazy("Look for notifications that were missed"),
    "delete_old_notifications": _lazy("Delete old notifications"),
    "prune_events": _lazy("Delete events that every page has seen"),
    "remove_deleted_chats": _lazy("Remove deleted chats and projects"),
    "read_left_files": _lazy("Read project files that are not read yet"),
    "make_missing_vectors": _lazy("Prepare project files for the search by meaning"),
    "delete_unused_objects": _lazy("Delete files that nothing refers to"),
    "delete_old_imports": _lazy("Delete old uploads of imports"),
    "delete_old_service_drafts": _lazy("Delete old drafts of services"),
    "ask_about_new_tools": _lazy("Ask for second opinions on new tools"),
    "prune_traces": _lazy("Delete old traces"),
    "delete_expired_sessions": _lazy("Delete expired sessions"),
    "delete_old_sign_in_failures": _lazy("Delete old failed sign-ins"),
    "expire_attention_checks": _lazy("Let attention checks expire"),
    "log_lapsed_consents": _lazy("Record permissions that expired"),
    "prune_results": _lazy("Delete results of background tasks"),
}
MOST_WORKERS = 50
WORKER_KINDS = {
    Worker.Kind.SERVER: _lazy("Server %(host)s, process %(pid)s"),
    Worker.Kind.TASKS: _lazy("Tasks %(host)s, process %(pid)s"),
}
LITTLE_SPACE = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`tone` is good, warn or bad where the value says something about the state."""

    name: str
    value: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """`address` and `link` lead to the page that has more about it."""

    name: str
    title: str
    rows: Sequence[Row]
    about: str = ""
    address: str = ""
    link: str = ""


def list_cards(admin: Member) -> list[Card]:
    runs = load_runs()
    cards = [_build_versions(), _build_work(), _build_workers(), _build_storage()]
    cards += [_build_schedule(), _build_retention()]
    if admin.has_perm("chatapp.view_logentry"):
        cards.append(_build_log(runs))
    cards.append(_build_backups(runs))
    return cards


# --- versions ----------------------------------------------------------------------------------
def _build_versions() -> Card:
    rows = [
        Row(name="Countersign", value=VERSION),
        Row(name="Python", value=platform.python_version()),
        *(Row(name=name, value=_find_version(package)) for name, package in PACKAGES.items()),
        Row(name=connection.display_name, value=_find_database_version()),
    ]
    pending = len(list_pending_migrations())
    missing = ngettext("%(count)s missing", "%(count)s missing", pending) % {"count": pending}
    rows.append(
        Row(
            name=_("Migrations"),
            value=missing if pending else _("all applied"),
            note=_("Run manage.py migrate.") if pending else "",
            tone="bad" if pending else "good",
        )
    )
    return Card(name="versions", title=_("Versions"), rows=rows)


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "–"


def _find_database_version() -> str:
    return ".".join(str(number) for number in connection.get_database_version())


# --- work --------------------------------------------------------------------------------------
def _build_work() -> Card:
    running = count_running()
    rows = [
        Row(
            name=_("Turns"),
            value=_("%(running)s running, %(queued)s queued, %(waiting)s waiting for a person")
            % {
                "running": intcomma(running.running),
                "queued": intcomma(running.queued),
                "waiting": intcomma(running.waiting),
            },
        ),
    ]
    if running.abandoned:
        rows.append(
            Row(
                name=_("Turns without a server"),
                value=intcomma(running.abandoned),
                note=_("Another server takes them over within seconds."),
                tone="warn",
            )
        )
    rows += _list_task_rows()
    return Card(
        name="work",
        title=_("Work"),
        rows=rows,
        address=reverse("admin:django_tasks_database_dbtaskresult_changelist"),
        link=_("View background tasks"),
    )


def _list_task_rows() -> Iterator[Row]:
    if not is_in_database():
        yield Row(name=_("Background tasks"), value=settings.TASKS_BACKEND)
        return
    Status = TaskResultStatus
    counts = DBTaskResult.objects.aggregate(
        ready=Count("pk", filter=Q(status=Status.READY)),
        running=Count("pk", filter=Q(status=Status.RUNNING)),
        failed=Count("pk", filter=Q(status=Status.FAILED)),
        oldest=Min("enqueued_at", filter=Q(status=Status.READY, run_after=None)),
    )
    oldest = counts["oldest"]
    is_late = bool(oldest) and oldest < timezone.now() - LATE_AFTER
    yield Row(
        name=_("Background tasks"),
        value=_("%(ready)s waiting, %(running)s running, %(failed)s failed")
        % {name: intcomma(counts[name]) for name in ("ready", "running", "failed")},
        note=_("The oldest has waited for %(time)s.") % {"time": timesince(oldest)}
        if is_late
        else "",
        tone="bad" if is_late else "warn" if counts["failed"] else "good",
    )
    yield Row(
        name=_("Worker"),
        value=_("in each server") if settings.TASKS_WORKER else _("processes of their own"),
        note="" if settings.TASKS_WORKER else _("Run manage.py run_tasks for each."),
    )


def _build_workers() -> Card:
    """The processes by their heartbeats. One that has stopped reporting is shown for a day."""
    now = timezone.now()
    return Card(
        name="workers",
        title=_("Workers"),
        rows=[_build_worker(worker, now) for worker in Worker.objects.all()[:MOST_WORKERS]],
        about=_("The processes that run now. Each reports twice a minute."),
    )


def _build_worker(worker: Worker, now: datetime) -> Row:
    name = WORKER_KINDS[Worker.Kind(worker.kind)] % {"host": worker.host, "pid": worker.pid}
    age = now - worker.beat_at
    note = _("version %(version)s, started %(time)s, last report %(seconds)s s ago") % {
        "version": worker.version,
        "time": _write_time(worker.started_at),
        "seconds": max(0, round(age.total_seconds())),
    }
    if age > DEAD_AFTER:
        return Row(name=str(name), value=_("no longer reports"), note=note, tone="warn")
    parts = []
    if worker.turns:
        text = ngettext("%(count)s turn", "%(count)s turns", worker.turns)
        parts.append(text % {"count": intcomma(worker.turns)})
    if worker.runs_task:
        parts.append(_("a background task"))
    busy = _("busy: %(with)s") % {"with": ", ".join(parts)} if parts else _("idle")
    return Row(name=str(name), value=busy, note=note, tone="good")


def _build_schedule() -> Card:
    due = dict(TaskSchedule.objects.values_list("name", "next_at"))
    rows = [
        Row(
            name=str(TASKS[each.name]),
            value=_write_time(due[each.name]) if each.name in due else _("not yet"),
            note=_("interval: %(time)s") % {"time": _write_seconds(each.seconds())},
        )
        for each in RECURRING
        if each.is_needed()
    ]
    return Card(
        name="schedule",
        title=_("Recurring tasks"),
        about=_("When each runs next, if it has something to do."),
        rows=rows,
    )


# --- storage -----------------------------------------------------------------------------------
def _build_storage() -> Card:
    files = Attachment.objects.filter(service_name="").aggregate(
        size=Sum("size"), count=Count("pk")
    )
    of_projects = ProjectFile.objects.aggregate(size=Sum("size"), count=Count("pk"))
    outside = StoredObject.objects.filter(is_deleted=False).count()
    rows = [
        Row(name=_("Database"), value=_write_size(_measure_database())),
        Row(
            name=_("Files in messages"),
            value=_write_size(files["size"] or 0),
            note=_count_files(files["count"]),
        ),
        Row(
            name=_("Files of projects"),
            value=_write_size(of_projects["size"] or 0),
            note=_count_files(of_projects["count"]),
        ),
        Row(
            name=_("New files go to"),
            value=_("the database")
            if settings.FILE_STORAGE == "database"
            else settings.FILE_STORAGE,
            note=ngettext(
                "%(count)s object outside the database",
                "%(count)s objects outside the database",
                outside,
            )
            % {"count": intcomma(outside)},
        ),
        _build_disk_row(),
    ]
    return Card(name="storage", title=_("Storage"), rows=rows)


def _measure_database() -> int:
    """Return the size of the database in bytes."""
    query = "SELECT pg_database_size(current_database())"
    if connection.vendor == "sqlite":
        query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    with connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def _build_disk_row() -> Row:
    free = shutil.disk_usage(_find_existing(settings.VAR_DIR)).free
    is_little = free < LITTLE_SPACE
    return Row(
        name=_("Free on the disk of this server"),
        value=_write_size(free),
        tone="bad" if is_little else "good",
    )


def _find_existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())


# --- retention and backups ---------------------------------------------------------------------
def _build_retention() -> Card:
    rows = [
        Row(name=_("Traces"), value=_write_days(settings.TRACE_DAYS), note="TRACE_DAYS"),
        Row(
            name=_("Traces of each service"),
            value=intcomma(settings.TRACE_EXCHANGES),
            note="TRACE_EXCHANGES",
        ),
        Row(
            name=_("Open approvals"),
            value=_write_days(settings.APPROVAL_DAYS),
            note="APPROVAL_DAYS",
        ),
        Row(
            name=_("Open questions"),
            value=_write_days(settings.QUESTION_DAYS),
            note="QUESTION_DAYS",
        ),
        Row(name=_("Deleted chats, for restoring"), value=_write_days(RESTORABLE.days)),
        Row(name=_("Temporary chats"), value=_write_seconds(TEMPORARY_KEPT.total_seconds())),
        Row(name=_("Finished background tasks"), value=_write_days(KEPT_DAYS)),
        Row(name=_("Chats, tool calls and the activity log"), value=_("kept")),
    ]
    return Card(
        name="retention", title=_("Retention"), about=_("How long each is kept."), rows=rows
    )


def _build_backups(runs: Mapping[str, LastRun]) -> Card:
    is_file = connection.vendor == "sqlite"
    place = str(connection.settings_dict["NAME"])
    rows = [
        _build_run(
            _("Last backup"),
            runs.get(BACKUP),
            _("Run manage.py record_backup at the end of your backup."),
            BACKUP_OVERDUE,
        ),
        Row(
            name=_("Database"),
            value=place,
            note=_("Copy it with sqlite3 and its .backup command, not as a file.")
            if is_file
            else _("Use pg_dump or your provider’s snapshots."),
        ),
        Row(
            name=_("Keys"),
            value=str(settings.VAR_DIR),
            note=_("Without the encryption key, stored secrets cannot be read."),
        ),
    ]
    if settings.FILE_STORAGE != "database":
        rows.append(Row(name=_("Files"), value=settings.FILE_STORAGE))
    return Card(
        name="backups",
        title=_("Backups"),
        about=_("Countersign makes none. Back up these."),
        rows=rows,
    )


# --- the log -----------------------------------------------------------------------------------
def _build_log(runs: Mapping[str, LastRun]) -> Card:
    end = read_end()
    altered = find_altered_entry()
    rows = [
        Row(
            name=_("Entries"),
            value=intcomma(end.position),
            note=end.hash[:16],
        ),
        Row(
            name=_("Last entries"),
            value=_("not altered") if altered is None else _("altered"),
            note=_("Run manage.py log verify for all of them."),
            tone="good" if altered is None else "bad",
        ),
    ]
    places = [describe_place(place) for place in settings.LOG_ANCHORS]
    rows.append(
        Row(
            name=_("Anchors"),
            value=", ".join(places) or _("not written"),
            note=_("interval: %(time)s") % {"time": _write_seconds(settings.LOG_ANCHOR_SECONDS)}
            if places
            else _("Set LOG_ANCHORS to prove later that no entry was removed."),
            tone="good" if places else "warn",
        )
    )
    missing = _("The first one is written within this interval.")
    overdue = get_anchor_overdue()
    for number, (place, shown) in enumerate(zip(settings.LOG_ANCHORS, places, strict=True), 1):
        name = _("Anchor at %(place)s") % {"place": shown}
        if places.count(shown) > 1:
            name = f"{name} ({number})"
        rows.append(_build_run(name, runs.get(name_anchor(place)), missing, overdue))
    return Card(
        name="log",
        title=_("Activity log"),
        rows=rows,
        address=reverse("admin:chatapp_logentry_changelist"),
        link=_("View log"),
    )


def _build_run(name: str, run: LastRun | None, missing: str, overdue: timedelta) -> Row:
    """Return when something last ran and how it ended. After `overdue`, a success is too old."""
    if run is None:
        return Row(name=name, value=_("not recorded yet"), note=missing, tone="warn")
    if is_overdue(run, overdue):
        note = _("Last success: %(last)s.") % {"last": _write_time(run.at)}
        return Row(name=name, value=_("overdue"), note=note, tone="warn")
    if not run.problem:
        return Row(name=name, value=_("succeeded"), note=_write_time(run.at), tone="good")
    last = _("never") if run.succeeded_at is None else _write_time(run.succeeded_at)
    note = _("%(reason)s Last attempt: %(time)s. Last success: %(last)s.") % {
        "reason": run.problem,
        "time": _write_time(run.at),
        "last": last,
    }
    return Row(name=name, value=_("failed"), note=note, tone="bad")


# --- values as text ----------------------------------------------------------------------------
def _count_files(count: int) -> str:
    return ngettext("%(count)s file", "%(count)s files", count) % {"count": intcomma(count)}


def _write_size(size: int) -> str:
    return str(filesizeformat(size))


def _write_days(days: float) -> str:
    whole = int(days) if days == int(days) else days
    return ngettext("%(days)s day", "%(days)s days", int(days)) % {"days": intcomma(whole)}


def _write_seconds(seconds: float) -> str:
    """Return the duration in words, such as 10 minutes."""
    start = datetime(2000, 1, 1)  # noqa: DTZ001 - only the difference counts
    if seconds < 60:
        count = round(seconds)
        return ngettext("%(count)s second", "%(count)s seconds", count) % {"count": count}
    return timesince(start, start + timedelta(seconds=seconds))


def _write_time(moment: datetime) -> str:
    return date_format(timezone.localtime(moment), "DATETIME_FORMAT")
