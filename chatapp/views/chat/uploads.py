"""Uploaded files: stored as drafts of the person before the form is read, within bounds that are
enforced while they arrive."""

from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.conversations.uploads import Upload, describe_limits, keep_file
from chatapp.models import Attachment
from chatapp.people.refused import Refused
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.views.access import MemberRequest

FIELD = "files"


def keep_files(request: MemberRequest) -> tuple[list[Attachment], Refused | None]:
    """Store the files of a form and add them to it as drafts. Return them, and why others were
    refused."""
    kept: list[Attachment] = []
    problems: list[str] = []
    received = request.FILES.getlist(FIELD)
    if received:
        try:
            count_request("uploads", str(request.user.pk), settings.UPLOADS_PER_MINUTE)
        except TooManyRequests as error:
            sentence = " ".join([_("You added too many files within a minute."), error.hint])
            return [], Refused(sentence, 429, error.wait_seconds)
    for file in received[: settings.MESSAGE_MAX_FILES]:
        try:
            kept.append(keep_file(request.user, read_upload(file)))
        except Refused as refused:
            problems.append(refused.sentence)
    if len(received) > settings.MESSAGE_MAX_FILES:
        problems.append(
            ngettext(
                "Only the first file was read. A message can have %(count)d file.",
                "Only the first %(count)d files were read. A message can have %(count)d files.",
                settings.MESSAGE_MAX_FILES,
            )
            % {"count": settings.MESSAGE_MAX_FILES}
        )
    if kept:
        form = request.POST.copy()
        form.setlist("attachments", [*form.getlist("attachments"), *(str(k.pk) for k in kept)])
        request.POST = form  # type: ignore[assignment]  # what comes next reads the form from here
    return kept, Refused(" ".join(problems)) if problems else None


def read_upload(file: Any) -> Upload:
    return Upload(name=file.name or "", size=file.size or 0, data=file.read())


def add_file_limits(_request: HttpRequest) -> dict[str, Any]:
    """Add the limits of files to the context of all templates. Only those that show them have them
    written."""
    return {"file_limits": describe_limits}


class BoundedUpload(FileUploadHandler):
    """Keeps the files that a message may have. A file that exceeds a limit, alone or together with
    earlier ones, is dropped at once: its size is still counted, its bytes are not stored."""

    _file: BytesIO
    _is_kept = True
    _kept_of_form = 0

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._file = BytesIO()
        self._is_kept = True

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        size = start + len(raw_data)
        room = min(settings.FILE_MAX_BYTES, settings.MESSAGE_MAX_BYTES - self._kept_of_form)
        if self._is_kept and size <= room:
            self._file.write(raw_data)
        elif self._is_kept:
            self._file, self._is_kept = BytesIO(), False

    def file_complete(self, file_size: int) -> UploadedFile:  # type: ignore[type-arg]  # generic for the checker only
        self._kept_of_form += self._file.tell()
        self._file.seek(0)
        return UploadedFile(
            file=self._file, name=self.file_name, content_type=self.content_type, size=file_size
        )
