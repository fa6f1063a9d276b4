"""The bytes of people's files, attachments and those of projects: in the database, or as objects of
a Django storage.

Objects have random names. A person gets one only through a view that checks access.
"""

import logging
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from chatapp.models import File, ProjectFileData, StoredObject
from chatapp.people.refused import Refused

# A row with the bytes of a file, or with the object that has them.
Holder = File | ProjectFileData
HOLDERS: tuple[type[Holder], ...] = (File, ProjectFileData)
log = logging.getLogger(__name__)
DATABASE = "database"
# A file that is being stored has an object before it has a row.
UNUSED_AFTER = timedelta(hours=1)
AT_ONCE = 100
UNAVAILABLE = gettext_lazy("The file storage did not respond. Try again in a minute.")


class FileMissing(Exception):
    """The object of a file is not in its storage."""


class StorageUnavailable(Exception):
    """The storage of a file did not respond, or is not configured any more."""


def store_bytes(data: bytes) -> StoredObject | None:
    """Store these bytes where the settings say. Return None if that is the database. No transaction
    may be open, because an upload takes a while. Raises Refused."""
    if settings.FILE_STORAGE == DATABASE:
        return None
    try:
        return _store_object(data)
    except StorageUnavailable:
        raise Refused(str(UNAVAILABLE), 503) from None


def read_bytes(file: Holder) -> bytes:
    """Return the bytes of a file. Raises FileMissing or StorageUnavailable."""
    if file.stored is None:
        return bytes(file.data)
    try:
        with storages[file.stored.storage].open(file.stored.name) as opened:
            return bytes(opened.read())
    except (FileNotFoundError, SuspiciousOperation):
        log.error("The object %s of a file is missing", file.stored)
        raise FileMissing from None
    except Exception as error:  # each storage has its own errors
        log.exception("The object %s of a file could not be read", file.stored)
        raise StorageUnavailable from error


def delete_unused() -> None:
    """Delete the objects that no file refers to. One that its storage does not delete is tried
    again later, after the others. Raises StorageUnavailable for it, after the other storages."""
    names = find_unused().order_by("storage").values_list("storage", flat=True).distinct()
    failed = [each for name in list(names) if (each := _delete_unused_of(name)) is not None]
    if failed:
        raise StorageUnavailable(", ".join(map(str, failed)))


def find_unused() -> QuerySet[StoredObject]:
    unused = [~Exists(each._default_manager.filter(stored=OuterRef("pk"))) for each in HOLDERS]
    may_go = Q(is_deleted=True) | Q(created_at__lt=Now() - UNUSED_AFTER)
    return StoredObject.objects.filter(may_go, *unused).order_by("created_at")


def find_elsewhere(holder: type[Holder]) -> QuerySet[Any]:
    """Return the files of this kind that are not where new files are stored."""
    rows = holder._default_manager
    if settings.FILE_STORAGE == DATABASE:
        return rows.exclude(stored=None)
    return rows.exclude(stored__storage=settings.FILE_STORAGE)


def move_file(file: Holder) -> None:
    """Move a file to where new files are stored, with all copies that share its object. Raises
    Refused, FileMissing or StorageUnavailable."""
    data = read_bytes(file)
    place = store_bytes(data)
    rows = type(file)._default_manager
    same = rows.filter(pk=file.pk) if file.stored is None else rows.filter(stored=file.stored)
    same.update(data=b"" if place else data, stored=place)


def _store_object(data: bytes) -> StoredObject:
    identifier = uuid.uuid4().hex
    # An open transaction could be rolled back, and with it the only trace of the object.
    with transaction.atomic(durable=True):
        kept = StoredObject.objects.create(
            name=f"{identifier[:2]}/{identifier}", storage=settings.FILE_STORAGE
        )
    try:
        storages[kept.storage].save(kept.name, ContentFile(data))
    except Exception as error:  # each storage has its own errors
        log.exception("A file could not be stored in %s", kept.storage)
        raise StorageUnavailable from error
    return kept


def _delete_unused_of(storage: str) -> StoredObject | None:
    """Delete unused objects of this storage. Return the first that it does not delete: the others
    would have to wait for a storage that does not respond as well."""
    for unused in find_unused().filter(storage=storage)[:AT_ONCE]:
        if not _delete_object(unused):
            StoredObject.objects.filter(name=unused.name, is_deleted=True).update(created_at=Now())
            return unused
    return None


def _delete_object(unused: StoredObject) -> bool:
    """Delete an object and then its row. Return whether its storage did so."""
    try:
        marked = _mark_deleted(unused)
        # Outside of the transaction: SQLite would let nobody write meanwhile.
        storages[marked.storage].delete(marked.name)
    except Exception:  # each storage has its own errors
        log.exception("The object %s could not be deleted", unused)
        return False
    marked.delete()
    return True


def _mark_deleted(unused: StoredObject) -> StoredObject:
    """Replace the row with a new one. No file can refer to it, because its id is used nowhere."""
    if unused.is_deleted:
        return unused
    with transaction.atomic():
        unused.delete()
        return StoredObject.objects.create(
            name=unused.name, storage=unused.storage, is_deleted=True
        )
