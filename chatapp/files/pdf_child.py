"""Reads a PDF from standard input, in a child process without environment and with limits.

A PDF is untrusted code: one that loops or grows ends here, by the limits of this process, and
affects no other. Run by `pdf.py`; it writes one JSON object.
"""

import contextlib
import io
import json
import logging
import resource
import sys

from pypdf import PdfReader
from pypdf.errors import PyPdfError

MEMORY_BYTES = 1024 * 1024 * 1024


def main() -> None:
    seconds, most_pages, most_characters = map(int, sys.argv[1:])
    _limit(seconds)
    logging.disable()
    data = sys.stdin.buffer.read()
    json.dump(_read(data, most_pages, most_characters), sys.stdout)


def _limit(seconds: int) -> None:
    for what, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # some systems lack some of these limits
            resource.setrlimit(what, (most, most))


def _read(data: bytes, most_pages: int, most_characters: int) -> dict[str, object]:
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted:
            return {"problem": "encrypted"}
        pages = len(reader.pages)
        if not 0 < pages <= most_pages:
            return {"problem": "long" if pages else "broken", "pages": pages}
        return {"pages": pages, **_read_words(reader, most_characters)}
    except (PyPdfError, ArithmeticError, LookupError, AttributeError, TypeError, ValueError):
        return {"problem": "broken"}
    except (RecursionError, MemoryError, NotImplementedError):
        return {"problem": "broken"}


def _read_words(reader: PdfReader, most: int) -> dict[str, object]:
    """Return the text page by page, up to the limit. A page that cannot be read has no text."""
    texts: list[str] = []
    length = 0
    for number, page in enumerate(reader.pages, start=1):
        try:
            text = page.extract_text().strip()
        except (PyPdfError, ArithmeticError, LookupError, AttributeError, TypeError, ValueError):
            continue
        if text:
            texts.append(f"[Page {number}]\n{text}")
            length += len(texts[-1])
        if length > most:
            return {"words": "\n\n".join(texts)[:most], "was_cut": True}
    return {"words": "\n\n".join(texts), "was_cut": False}


if __name__ == "__main__":
    main()
