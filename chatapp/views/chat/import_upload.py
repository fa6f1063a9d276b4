"""Receives the file of an import: written to the disk while it arrives, within its limit."""

from tempfile import TemporaryFile
from typing import IO, Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler


class ImportUpload(FileUploadHandler):
    """Keeps one file. One that exceeds the limit is dropped at once: its size is still counted, its
    bytes are not stored. So is every further file."""

    _file: IO[bytes]
    _is_kept = True

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._is_kept = not hasattr(self, "_file")
        self._file = TemporaryFile()  # noqa: SIM115  # closed with the request

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        if self._is_kept and start + len(raw_data) <= settings.IMPORT_MAX_BYTES:
            self._file.write(raw_data)
        elif self._is_kept:
            self._file.truncate(0)
            self._is_kept = False

    def file_complete(self, file_size: int) -> UploadedFile:  # type: ignore[type-arg]  # generic for the checker only
        self._file.seek(0)
        return UploadedFile(
            file=self._file, name=self.file_name, content_type=self.content_type, size=file_size
        )
