"""How much of what is uploaded is kept, decided while it comes in."""

from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler


class BoundedUpload(FileUploadHandler):
    """Keeps what a message may have. A file that is too much, by itself or beside the ones before
    it, is let go as soon as that shows: its size is counted on, its bytes are not kept."""

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
