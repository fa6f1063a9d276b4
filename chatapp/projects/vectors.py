"""Makes the vectors of passages, for the search by meaning.

One task does it at a time, because a text that is sent twice is paid twice. A file is searched by
words until all of its passages have vectors, and by both as they come.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from chatapp.models import (
    EmbeddingProgress,
    EmbeddingSettings,
    Member,
    PassageVector,
    ProjectFile,
    ProjectPassage,
)
from chatapp.models.projects.passage_vectors import pack_numbers, pack_signs
from chatapp.providers.access.embeddings import Embedder, embed, find_embedder
from chatapp.providers.access.usage import find_used_up_allowance
from chatapp.providers.embeddings import EMBED_SECONDS, MOST_TEXTS
from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.server.database import in_database
from chatapp.server.languages import in_english

log = logging.getLogger(__name__)
State = ProjectFile.State
# A task ends after this time and leaves the rest to the next one.
RUN_SECONDS = 120
# The claim of a task whose process ended is taken over after this time.
CLAIM_SECONDS = RUN_SECONDS + 2 * EMBED_SECONDS
MOST_WAIT_SECONDS = 3_600
# These may be about one text of a request, so each text is sent alone.
ABOUT_TEXT: tuple[ErrorKind, ...] = ("bad_request", "too_long", "filtered", "protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Passages of one file that are sent together, with their texts."""

    file: ProjectFile
    passages: tuple[ProjectPassage, ...]
    payer_id: int

    @property
    def texts(self) -> list[str]:
        return [_write_text(self.file, passage) for passage in self.passages]


def _write_text(file: ProjectFile, passage: ProjectPassage) -> str:
    """Return the text with its file and place: a short passage may not say what it is about."""
    return f"{' · '.join(filter(None, (file.name, passage.place)))}\n{passage.text}"


# --- what is missing -----------------------------------------------------------------------------
def filter_files_without(version: int) -> QuerySet[ProjectFile]:
    """Return the searchable files of projects in use, of which some passages have no vector of this
    version."""
    return _filter_searchable().exclude(vectors_version=version)


def _filter_searchable() -> QuerySet[ProjectFile]:
    """Return the files that are searched. Text of other projects is not sent to the provider."""
    return ProjectFile.objects.filter(
        state=State.READY, project__deleted_at=None, project__archived_at=None
    )


def has_missing() -> bool:
    """Whether a task has something to do now."""
    settings = EmbeddingSettings.current()
    if not settings.model or not filter_files_without(settings.version).exists():
        return False
    now = timezone.now()
    waits = Q(retry_at__gt=now) | Q(claimed_until__gt=now)
    return not EmbeddingProgress.objects.filter(waits, pk=1).exists()


def remove_all() -> None:
    """Delete all vectors, after the search by meaning was switched off."""
    PassageVector.objects.all().delete()
    ProjectFile.objects.exclude(vectors_version=0).update(vectors_version=0)


# --- the task ------------------------------------------------------------------------------------
@in_english
async def make_missing(seconds: float = RUN_SECONDS) -> None:
    """Make vectors until none is missing or the time is over. Never raises because of the provider:
    a failure is stored and tried again later."""
    until = await in_database(_claim)
    if until is None:
        return
    embedder: Embedder | None = None
    try:
        embedder = await in_database(find_embedder)
        if embedder is not None:
            await _make_until(embedder, time.monotonic() + seconds)
    except ProviderError as error:
        log.warning("No embeddings: %s", error.detail or error)
        await in_database(_store_failure, error, embedder)
    finally:
        await in_database(_release, until)


def _claim() -> datetime | None:
    """Claim the work for this task. Returns until when, or None while another one has it or
    waits."""
    EmbeddingProgress.objects.get_or_create(pk=1)
    now = timezone.now()
    free = EmbeddingProgress.objects.filter(
        Q(claimed_until=None) | Q(claimed_until__lte=now),
        Q(retry_at=None) | Q(retry_at__lte=now),
        pk=1,
    )
    until = now + timedelta(seconds=CLAIM_SECONDS)
    return until if free.update(claimed_until=until) else None


def _release(until: datetime) -> None:
    EmbeddingProgress.objects.filter(pk=1, claimed_until=until).update(claimed_until=None)


async def _make_until(embedder: Embedder, deadline: float) -> None:
    waiting: set[int] = set()
    while time.monotonic() < deadline:
        batch = await in_database(_find_batch, embedder.version, waiting)
        if batch is None:
            return
        vectors = await _ask(embedder, batch, deadline)
        if not await in_database(_store, embedder, batch, vectors):
            # An admin changed the settings meanwhile.
            return


def _find_batch(version: int, waiting: set[int]) -> _Batch | None:
    """Return the next passages without a vector, and mark the files that have none left. `waiting`
    collects the people whose allowance is used up; their files are left out."""
    files = filter_files_without(version).select_related("project").order_by("created_at", "pk")
    for file in files.iterator(chunk_size=20):
        payer_id = _find_payer(file)
        if payer_id in waiting:
            continue
        passages = tuple(_filter_passages_without(file, version)[:MOST_TEXTS])
        if not passages:
            _mark_done(file, version)
        elif find_used_up_allowance(Member.objects.get(pk=payer_id)):
            waiting.add(payer_id)
        else:
            return _Batch(file=file, passages=passages, payer_id=payer_id)
    return None


def _find_payer(file: ProjectFile) -> int:
    """Return who added the file, or the owner of its project after that person left it."""
    project = file.project
    if file.added_by_id is None or file.added_by_id == project.owner_id:
        return project.owner_id
    is_member = project.members.filter(person=file.added_by_id).exists()
    return file.added_by_id if is_member else project.owner_id


def _filter_passages_without(file: ProjectFile, version: int) -> QuerySet[ProjectPassage]:
    missing = Q(vector=None) | ~Q(vector__version=version)
    return file.passages.filter(missing).order_by("number")


@transaction.atomic
def _mark_done(file: ProjectFile, version: int) -> None:
    """Mark a file whose passages all have vectors, unless it was read again meanwhile."""
    stored = ProjectFile.objects.select_for_update().filter(pk=file.pk).first()
    if stored is not None and not _filter_passages_without(stored, version).exists():
        ProjectFile.objects.filter(pk=file.pk).update(vectors_version=version)


async def _ask(embedder: Embedder, batch: _Batch, deadline: float) -> Sequence[tuple[float, ...]]:
    """Return the vectors of the batch, or of its beginning at the deadline. A text that the
    provider refuses has an empty one."""
    try:
        return await _embed(embedder, batch.texts, batch.payer_id)
    except ProviderError as error:
        if error.kind not in ABOUT_TEXT:
            raise
        refusal = error
    vectors: list[tuple[float, ...]] = []
    for text in batch.texts if len(batch.texts) > 1 else ():
        if vectors and time.monotonic() > deadline:
            return vectors
        try:
            vectors += await _embed(embedder, [text], batch.payer_id)
        except ProviderError as error:
            if error.kind not in ABOUT_TEXT:
                raise
            vectors.append(())
    if not any(vectors) and not await in_database(_has_vectors, embedder.version):
        # It is about the model or its settings.
        raise refusal
    return vectors or [()]


def _has_vectors(version: int) -> bool:
    """Whether the model answered before, so that what it refuses is about the text."""
    return PassageVector.objects.filter(version=version).exclude(signs=b"").exists()


async def _embed(
    embedder: Embedder, texts: Sequence[str], payer_id: int
) -> Sequence[tuple[float, ...]]:
    found = await embed(embedder, texts, "passage", payer_id=payer_id, seconds=EMBED_SECONDS)
    return found.vectors


@transaction.atomic
def _store(embedder: Embedder, batch: _Batch, vectors: Sequence[tuple[float, ...]]) -> bool:
    """Store the vectors and forget the last failure. Returns False if the settings changed."""
    if not _lock_version(embedder.version):
        return False
    kept = ProjectPassage.objects.select_for_update().filter(pk__in=[p.pk for p in batch.passages])
    known = set(kept.values_list("pk", flat=True))
    rows = [
        PassageVector(
            passage=passage,
            version=embedder.version,
            signs=pack_signs(vector) if vector else b"",
            numbers=pack_numbers(vector) if vector else b"",
        )
        for passage, vector in zip(batch.passages, vectors, strict=False)
        if passage.pk in known
    ]
    PassageVector.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["passage"],
        update_fields=["version", "signs", "numbers"],
    )
    forget_failure()
    return True


def _lock_version(version: int) -> bool:
    """Lock the settings, and return whether they still have a model and this version."""
    stored = EmbeddingSettings.objects.select_for_update().filter(pk=1).first()
    return stored is not None and bool(stored.model) and stored.version == version


@transaction.atomic
def _store_failure(error: ProviderError, embedder: Embedder | None) -> None:
    """Store the failure of the present model, and wait longer after each."""
    if embedder is not None and not _lock_version(embedder.version):
        return
    progress = EmbeddingProgress.objects.get(pk=1)
    failures, now = progress.failures + 1, timezone.now()
    wait = max(error.retry_after or 0, 30 * 2 ** min(failures, 10))
    EmbeddingProgress.objects.filter(pk=1).update(
        problem=" ".join(filter(None, (error.message, error.hint))),
        raw=error.detail,
        failures=failures,
        failed_at=now,
        retry_at=now + timedelta(seconds=min(wait, MOST_WAIT_SECONDS)),
    )


# --- the settings --------------------------------------------------------------------------------
def forget_failure() -> None:
    """Forget the last failure and the wait after it: a request succeeded, or an admin changed the
    model."""
    EmbeddingProgress.objects.filter(pk=1).update(
        problem="", raw="", failures=0, failed_at=None, retry_at=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many passages of searchable files there are, have a vector, and were refused."""

    passages: int
    made: int
    refused: int


def measure_coverage() -> Coverage:
    """Count the passages of all projects in use, and their vectors of the current model."""
    version = EmbeddingSettings.current().version
    passages = ProjectPassage.objects.filter(file__in=_filter_searchable())
    of_version = passages.filter(vector__version=version)
    refused = of_version.filter(vector__signs=b"").count()
    return Coverage(passages=passages.count(), made=of_version.count() - refused, refused=refused)
