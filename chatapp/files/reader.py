"""What a child process with limits on time and memory makes of a file: the text of a PDF or an
office file, and a small square of a picture."""

import base64
import json
import math
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.files.kinds import detect_model_type

CHILD = Path(__file__).with_name("reader_child.py")
# Each may take a gigabyte and a core.
_AT_ONCE = threading.BoundedSemaphore(2)
# How long a file waits for others. A request that waits holds a thread.
WAIT_SECONDS = 120
# A picture that is read. Current phones take such; decoded, with a copy, it fits into the memory.
MOST_MEGAPIXELS: Final = 50
# The picture that is made of it: pixels on each side, and bytes.
PICTURE_SIDE: Final = 192
PICTURE_BYTES: Final = 20_000
PICTURE_TYPE: Final = "image/webp"

_PROBLEMS = {
    "archive": gettext_lazy("archives cannot be attached. Unpack it, then attach its files."),
    "binary_office": gettext_lazy(
        "this office format cannot be read. Save it as DOCX, XLSX or PPTX, then attach it again."
    ),
    "busy": gettext_lazy("the server is reading other files. Attach it again in a few minutes."),
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
    found = _wait_for_child(kind, data, settings.PDF_MAX_PAGES, most_characters)
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


def make_square_picture(data: bytes) -> bytes:
    """Return the middle of a picture, small, upright, and without anything but its pixels, as
    PICTURE_TYPE. Raise Unreadable with a whole sentence."""
    most_pixels = MOST_MEGAPIXELS * 1_000_000
    found = _wait_for_child("picture", data, most_pixels, PICTURE_SIDE, PICTURE_BYTES)
    if (problem := found.get("problem")) == "busy":
        raise Unreadable(_("The server is reading other files. Try again in a few minutes."))
    if problem == "many_pixels":
        sentence = _("The picture has more than %(most)s million pixels. Choose a smaller one.")
        raise Unreadable(sentence % {"most": MOST_MEGAPIXELS})
    try:
        picture = base64.b64decode(found["picture"], validate=True)
    except (LookupError, TypeError, ValueError):
        picture = b""
    # The child read an untrusted file.
    if len(picture) > PICTURE_BYTES or detect_model_type(picture) != PICTURE_TYPE:
        raise Unreadable(_("The picture is damaged. Choose another one."))
    return picture


def _wait_for_child(kind: str, data: bytes, *limits: int) -> dict[str, Any]:
    """Return the child's answer, or the problem `busy` after a long wait for other files."""
    numbers = (math.ceil(settings.FILE_READ_SECONDS), *limits)
    command = [sys.executable, "-I", str(CHILD), kind, *map(str, numbers)]
    if not _AT_ONCE.acquire(timeout=WAIT_SECONDS):
        return {"problem": "busy"}
    try:
        return _run_child(command, data)
    finally:
        _AT_ONCE.release()


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
