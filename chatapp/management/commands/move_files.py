"""`manage.py move_files`: move people's files to the storage that the settings name."""

import uuid
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.context.file_storage import (
    HOLDERS,
    FileMissing,
    Holder,
    StorageUnavailable,
    find_elsewhere,
    move_file,
)
from chatapp.people.refused import Refused
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = gettext_lazy(
        "Move the files of people to the storage in FILE_STORAGE, while the server runs. It may be "
        "stopped and started again at any time."
    )

    def handle(self, *args: object, **options: Any) -> None:
        moved = 0
        missing: set[uuid.UUID] = set()
        for holder in HOLDERS:
            moved += self._move_all(holder, missing)
        sentence = ngettext(
            "Moved %(count)d file to: %(storage)s", "Moved %(count)d files to: %(storage)s", moved
        )
        self.stdout.write(sentence % {"count": moved, "storage": settings.FILE_STORAGE})
        if missing:
            sentence = ngettext(
                "%(count)d file is missing from its storage.",
                "%(count)d files are missing from their storage.",
                len(missing),
            )
            raise Failure("not_found", sentence % {"count": len(missing)}, _("Restore a backup."))

    def _move_all(self, holder: type[Holder], missing: set[uuid.UUID]) -> int:
        """Move the files of this kind and return how many. Add the ids of missing ones."""
        moved = 0
        # Files are added and copied meanwhile, so it looks again until nothing is left.
        while left := find_elsewhere(holder).exclude(pk__in=missing).values_list("pk", flat=True):
            for pk in list(left):
                # It may be gone, or moved with a copy that shares its object.
                file = find_elsewhere(holder).select_related("stored").filter(pk=pk).first()
                if file is None:
                    continue
                try:
                    move_file(file)
                except FileMissing:
                    missing.add(pk)
                    self._report_missing(file)
                except (Refused, StorageUnavailable):
                    raise Failure(
                        "unavailable",
                        _("A file storage did not respond."),
                        _("Check its settings, then run this command again."),
                    ) from None
                else:
                    moved += 1
        return moved

    def _report_missing(self, file: Holder) -> None:
        sentence = _("Missing: %(name)s (%(object)s)")
        self.stderr.write(sentence % {"name": file.pk, "object": file.stored})
