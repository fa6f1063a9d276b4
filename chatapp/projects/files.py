"""The files of a project: added, read into passages and deleted.

A file of a kind that is read in no time is read while it is added. Any other is stored first and
read by a task. It may be read twice at once: the passages of one reading replace those of the
other.
"""

import uuid

from django.db import transaction
from django.db.models import Count, F, QuerySet, Sum
from django.db.models.functions import Least
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chatapp.context.file_storage import FileMissing, read_bytes, store_bytes
from chatapp.conversations.uploads import (
    Content,
    Upload,
    check_size,
    examine,
    make_visible_name,
)
from chatapp.files.kinds import detect_kind
from chatapp.files.passages import split_passages
from chatapp.models import Member, Project, ProjectFile, ProjectFileData, ProjectPassage
from chatapp.models.projects.project_file import (
    FILES_PER_PROJECT,
    MAX_FILE_CHARACTERS,
    OWNER_MAX_BYTES,
    PROJECT_MAX_BYTES,
)
from chatapp.people.refused import Refused
from chatapp.rendering.sizes import format_size
from chatapp.server.database import from_now
from chatapp.server.languages import in_english

from .changes import lock_to_change
from .log_entries import log_act

State = ProjectFile.State
# Their text needs no child process, or they have none.
READ_AT_ONCE = ("text", "picture", "other", "other_encoding")
NO_TEXT = gettext_noop("No text found. Upload a version with selectable text.")
NOT_READ = gettext_noop("This file cannot be read. Save it again, then upload it.")
LOST = gettext_noop("This file is missing from the file storage. Upload it again.")
PASSAGES_AT_ONCE = 500
# A file that is not read after this time has no task any more.
LEFT_AFTER_MINUTES = 5
# Its process ended each time, or nobody reads files: nobody waits for it any more.
GIVEN_UP_AFTER_MINUTES = 60


def add_file(person: Member, project: Project, upload: Upload) -> ProjectFile:
    """Store a file. Its state says whether a task still has to read it. Raises Refused, with the
    file's name."""
    name = make_visible_name(upload.name)
    check_size(name, upload)
    content = None
    if detect_kind(upload.data) in READ_AT_ONCE:
        examined = examine(upload, MAX_FILE_CHARACTERS)
        upload, content = examined.upload, examined.content
    with transaction.atomic():
        # Nothing is uploaded to a storage for a project without room.
        _check_room(lock_to_change(person, project), name, upload.size)
    stored = store_bytes(upload.data)
    with transaction.atomic():
        project = lock_to_change(person, project)
        _check_room(project, name, upload.size)
        file = ProjectFile.objects.create(
            project=project, added_by=person, name=name, size=upload.size
        )
        data = upload.data if stored is None else b""
        ProjectFileData.objects.create(file=file, data=data, stored=stored)
        log_act(project, "file added", person, file=name)
        if content is not None:
            _store_content(file, content)
    return file


def _check_room(project: Project, name: str, size: int) -> None:
    count, used = measure_files(project)
    if count >= FILES_PER_PROJECT:
        sentence = _("%(name)s: this project has %(count)d files, which is the limit.")
        raise Refused(sentence % {"name": name, "count": FILES_PER_PROJECT}, 409)
    if used + size > PROJECT_MAX_BYTES:
        sentence = _("%(name)s: the files of a project can have %(most)s together. Delete some.")
        most = format_size(PROJECT_MAX_BYTES)
        raise Refused(sentence % {"name": name, "most": most}, 409)
    Member.objects.select_for_update(no_key=True).get(pk=project.owner_id)
    if _measure_owner(project.owner_id) + size > OWNER_MAX_BYTES:
        sentence = _(
            "%(name)s: the files of all projects of %(owner)s and their text can have %(most)s "
            "together. Deleted projects count for 7 days. Delete some files."
        )
        most, owner = format_size(OWNER_MAX_BYTES), project.owner.display_name
        raise Refused(sentence % {"name": name, "owner": owner, "most": most}, 409)


def _measure_owner(person_id: int) -> int:
    """Return the bytes of the files in all projects of a person, with a byte for each character of
    their text: an archive of some kilobytes can have a lot of it."""
    text = Least(F("characters"), MAX_FILE_CHARACTERS)
    used = ProjectFile.objects.filter(project__owner=person_id).aggregate(
        used=Sum(F("size") + text)
    )
    return used["used"] or 0


def measure_files(project: Project) -> tuple[int, int]:
    """Return how many files the project has, and their bytes."""
    found = project.files.aggregate(count=Count("pk"), size=Sum("size"))
    return found["count"], found["size"] or 0


@in_english
def read_file(file_id: uuid.UUID) -> None:
    """Read the text of a stored file. Does nothing if it was read or deleted. Raises
    StorageUnavailable."""
    file = ProjectFile.objects.filter(pk=file_id, state=State.READING).first()
    kept = ProjectFileData.objects.select_related("stored").filter(file=file_id).first()
    if file is None or kept is None:
        return
    try:
        data = read_bytes(kept)
    except FileMissing:
        _store_problem(file, LOST)
        return
    upload = Upload(name=file.name, size=file.size, data=data)
    try:
        content = examine(upload, MAX_FILE_CHARACTERS).content
    except Refused as refused:
        _store_problem(file, refused.sentence.removeprefix(f"{file.name}: "))
        return
    with transaction.atomic():
        if ProjectFile.objects.select_for_update().filter(pk=file.pk).exists():
            _store_content(file, content)


def filter_left() -> QuerySet[ProjectFile, uuid.UUID]:
    """Return the ids of the files that were added some minutes ago and are still not read."""
    left = ProjectFile.objects.filter(
        state=State.READING, created_at__lt=from_now(minutes=-LEFT_AFTER_MINUTES)
    )
    return left.order_by("created_at").values_list("pk", flat=True)


def give_up_old() -> None:
    """Mark the files that could not be read for a long time, such as one that ends the process that
    reads it. Otherwise they would be tried for ever."""
    old = ProjectFile.objects.filter(
        state=State.READING, created_at__lt=from_now(minutes=-GIVEN_UP_AFTER_MINUTES)
    )
    old.update(state=State.FAILED, problem=NOT_READ)


def give_up_reading(file_id: uuid.UUID) -> None:
    """Store that a file could not be read."""
    for file in ProjectFile.objects.filter(pk=file_id, state=State.READING):
        _store_problem(file, NOT_READ)


def _store_problem(file: ProjectFile, problem: str) -> None:
    rows = ProjectFile.objects.filter(pk=file.pk, state=State.READING)
    rows.update(state=State.FAILED, problem=problem)


def _store_content(file: ProjectFile, content: Content) -> None:
    found = split_passages(file.name, content.media_type, content.words)
    ProjectPassage.objects.filter(file=file).delete()
    ProjectPassage.objects.bulk_create(
        (
            ProjectPassage(
                file=file,
                number=number,
                place_kind=each.place_kind,
                place=each.place,
                text=each.text,
            )
            for number, each in enumerate(found, start=1)
        ),
        batch_size=PASSAGES_AT_ONCE,
    )
    file.media_type, file.pages = content.media_type, content.pages
    file.characters = content.characters
    file.state = State.READY if found else State.FAILED
    file.problem = "" if found else NO_TEXT
    file.vectors_version = 0
    file.save(
        update_fields=[
            *("media_type", "pages", "characters", "state", "problem", "vectors_version")
        ]
    )


@transaction.atomic
def delete_file(person: Member, project: Project, file_id: uuid.UUID) -> None:
    """Delete a file with its text. Raises Refused, or 404."""
    project = lock_to_change(person, project)
    file = find_file(project, file_id)
    log_act(project, "file deleted", person, file=file.name)
    file.delete()


def find_file(project: Project, file_id: uuid.UUID) -> ProjectFile:
    """Return a file of this project, or raise 404."""
    found = project.files.select_related("added_by").filter(pk=file_id).first()
    if found is None:
        raise Http404("No such file.")
    return found
