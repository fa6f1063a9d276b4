"""The text of a PDF, read in a child process with limits on time, memory and pages."""

import json
import math
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import gettext as _

CHILD = Path(__file__).with_name("pdf_child.py")
# Each may take a gigabyte and a core.
_AT_ONCE = threading.BoundedSemaphore(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfText:
    """`words` is empty if the pages are pictures of text."""

    pages: int
    words: str
    was_cut: bool


class Unreadable(Exception):
    """Not a PDF that a model could read. The text says why, after the name of the file."""


def read_pdf(data: bytes, most_characters: int) -> PdfText:
    """Return the text, or raise Unreadable. It blocks for at most the seconds of the settings."""
    limits = (math.ceil(settings.PDF_SECONDS), settings.PDF_MAX_PAGES, most_characters)
    command = [sys.executable, "-I", str(CHILD), *map(str, limits)]
    with _AT_ONCE:
        found = _run_child(command, data)
    match found.get("problem"):
        case None:
            return PdfText(pages=found["pages"], words=found["words"], was_cut=found["was_cut"])
        case "encrypted":
            raise Unreadable(
                _("the PDF is encrypted. Save it without a password, then attach it again.")
            )
        case "long":
            raise Unreadable(
                _(
                    "the PDF has %(count)s pages. The limit is %(most)s. Attach only the pages "
                    "that you need."
                )
                % {
                    "count": intcomma(found["pages"]),
                    "most": intcomma(settings.PDF_MAX_PAGES),
                }
            )
    raise Unreadable(_("the PDF cannot be read. Save or print it as a PDF again, then attach it."))


def _run_child(command: list[str], data: bytes) -> dict[str, Any]:
    """Return the child's answer, or a problem if it was stopped or failed."""
    try:
        # The command is fixed; the file is sent through the pipe, and the environment is empty.
        done = subprocess.run(  # noqa: S603
            command, input=data, capture_output=True, timeout=settings.PDF_SECONDS, env={}
        )
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, OSError, ValueError):
        found = {}
    return found or {"problem": "broken"}
