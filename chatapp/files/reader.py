"""The text of PDF and office files, read in a child process with limits on time and memory."""

import json
import math
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

CHILD = Path(__file__).with_name("reader_child.py")
# Each may take a gigabyte and a core.
_AT_ONCE = threading.BoundedSemaphore(2)
# How long a file waits for others. A request that waits holds a thread.
WAIT_SECONDS = 120

_PROBLEMS = {
    "archive": gettext_lazy("archives cannot be attached. Unpack it, then attach its files."),
    "binary_office": gettext_lazy(
        "this office format cannot be read. Save it as DOCX, XLSX or PPTX, then attach it again."
    ),
    "dtd": gettext_lazy(
        "the file defines its own XML entities, which is not safe to read. Save it again in an "
        "office program, then attach it."
    ),
    "encrypted": gettext_lazy(
        "the file has a password. Save it without a password, then attach it again."
    ),
    "huge": gettext_lazy(
        "the file is too large when it is unpacked. Attach only the part that you need."
    ),
    "open_document": gettext_lazy(
        "OpenDocument files cannot be read. Save it as DOCX, XLSX, PPTX or PDF, then attach it "
        "again."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """`words` is empty if a file has only pictures. `pages` are the pages of a PDF, the sheets of
    a workbook or the slides of a presentation. `rows` are the rows of a workbook that were read.
    """

    media_type: str
    words: str
    was_cut: bool
    pages: int = 0
    rows: int = 0


class Unreadable(Exception):
    """Not a file that a model could read. The text says why, after the name of the file."""


def read_file(kind: Literal["pdf", "package"], data: bytes, most_characters: int) -> FileText:
    """Return the text, or raise Unreadable. The wait for other files and reading are bounded."""
    limits = (math.ceil(settings.FILE_READ_SECONDS), settings.PDF_MAX_PAGES, most_characters)
    command = [sys.executable, "-I", str(CHILD), kind, *map(str, limits)]
    if not _AT_ONCE.acquire(timeout=WAIT_SECONDS):
        raise Unreadable(_("the server is reading other files. Attach it again in a few minutes."))
    try:
        found = _run_child(command, data)
    finally:
        _AT_ONCE.release()
    problem = found.pop("problem", None)
    if problem is None:
        return FileText(**found)
    if problem == "long":
        raise Unreadable(
            _(
                "the PDF has %(count)s pages. The limit is %(most)s. Attach only the pages that "
                "you need."
            )
            % {"count": intcomma(found["pages"]), "most": intcomma(settings.PDF_MAX_PAGES)}
        )
    if problem in _PROBLEMS:
        raise Unreadable(str(_PROBLEMS[problem]))
    if kind == "pdf":
        raise Unreadable(
            _("the PDF cannot be read. Save or print it as a PDF again, then attach it.")
        )
    raise Unreadable(
        _("the file is damaged or too complex to read. Save it again, then attach it.")
    )


def _run_child(command: list[str], data: bytes) -> dict[str, Any]:
    """Return the child's answer, or a problem if it was stopped or failed."""
    try:
        # The command is fixed; the file is sent through the pipe, and the environment is empty.
        done = subprocess.run(  # noqa: S603
            command, input=data, capture_output=True, timeout=settings.FILE_READ_SECONDS, env={}
        )
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, OSError, ValueError):
        found = {}
    return found or {"problem": "broken"}
