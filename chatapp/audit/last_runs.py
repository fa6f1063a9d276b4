"""When something last ran, and how it ended: the places of the log's anchors, and backups."""

import hashlib
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from django.utils.text import capfirst

from chatapp.models import LastRun

BACKUP = "backup"
ANCHOR = "anchor "
MAX_PROBLEM = 500
# A backup that is older has probably stopped.
BACKUP_OVERDUE = timedelta(days=7)


def record_run(name: str, problem: str = "") -> None:
    """Record that it ran now. `problem` says why it failed, and is stored as a sentence. The time
    of the last success is kept."""
    now = timezone.now()
    values = {"at": now, "problem": _make_sentence(problem)}
    if not problem:
        values["succeeded_at"] = now
    LastRun.objects.update_or_create(name=name[:300], defaults=values)


def _make_sentence(text: str) -> str:
    """Return the text with a capital at the start and a mark at the end, short enough to store."""
    short = capfirst(" ".join(text.split())[: MAX_PROBLEM - 1])
    return short if not short or short.endswith((".", "!", "?")) else f"{short}."


def name_anchor(place: str) -> str:
    """Return the name of the runs at this place. Two places may have one host; a part of a hash
    tells them apart and shows nothing of a secret in the address."""
    return ANCHOR + hashlib.sha256(place.encode()).hexdigest()[:12]


def record_anchor(place: str, problem: str) -> None:
    """Record an anchor at this place of LOG_ANCHORS. An anchor that was written does not fail
    because this cannot be stored."""
    try:
        record_run(name_anchor(place), problem)
    except DatabaseError:
        return


def load_runs() -> dict[str, LastRun]:
    return {run.name: run for run in LastRun.objects.all()[:100]}


def get_anchor_overdue() -> timedelta:
    """Return the age at which an anchor has probably stopped."""
    return timedelta(seconds=2 * settings.LOG_ANCHOR_SECONDS)


def is_overdue(run: LastRun, overdue: timedelta) -> bool:
    """Whether the last success is too old. A run that failed is not overdue: it failed."""
    return not run.problem and run.at < timezone.now() - overdue
