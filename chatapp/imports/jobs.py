"""The tasks of imports, run by the worker of background tasks. Each may run twice, or at the same
time in two workers, without harm."""

import logging
import uuid

from django.db import DatabaseError
from django.utils.translation import gettext as _
from django_tasks import task

from chatapp.models import ChatImport
from chatapp.server.languages import speaking

from .file_store import delete_file
from .reading import list_chats
from .storing import import_chats

log = logging.getLogger(__name__)


@task
def read_file(import_id: str) -> None:
    """List the chats of an uploaded file."""
    if chat_import := _find(import_id):
        try:
            list_chats(chat_import)
        except DatabaseError:
            # Its person may have discarded the file meanwhile.
            if _find(import_id) is not None:
                raise
        except Exception:
            log.exception("The file of an import could not be read")
            _give_up(chat_import)


@task
def import_selected(import_id: str) -> None:
    """Store the selected chats. After some time another run continues."""
    chat_import = _find(import_id)
    if chat_import is not None and import_chats(chat_import):
        import_selected.enqueue(import_id)


def _find(import_id: str) -> ChatImport | None:
    rows = ChatImport.objects.select_related("person")
    return rows.filter(pk=uuid.UUID(import_id)).first()


def _give_up(chat_import: ChatImport) -> None:
    with speaking(chat_import.person.reading_language):
        problem = _("This file could not be read. Nothing was imported.")
    mine = ChatImport.objects.filter(pk=chat_import.pk, state=ChatImport.State.READING)
    if mine.update(state=ChatImport.State.REFUSED, problem=problem):
        delete_file(chat_import)
