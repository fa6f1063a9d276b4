"""The text of a PDF, page by page. Only the reader's child process imports it."""

import io
from collections.abc import Iterator

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from chatapp.files.kinds import PDF
from chatapp.files.text_limit import join_pieces


def read(data: bytes, most_pages: int, most_characters: int) -> dict[str, object]:
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted:
        return {"problem": "encrypted"}
    pages = len(reader.pages)
    if not 0 < pages <= most_pages:
        return {"problem": "long" if pages else "broken", "pages": pages}
    words, was_cut = join_pieces(_iterate_pages(reader), most_characters, "\n\n")
    return {"media_type": PDF, "pages": pages, "words": words, "was_cut": was_cut}


def _iterate_pages(reader: PdfReader) -> Iterator[str]:
    """Yield the text of each page. A page that cannot be read has none."""
    for number, page in enumerate(reader.pages, start=1):
        try:
            text = page.extract_text().strip()
        except (PyPdfError, ArithmeticError, LookupError, AttributeError, TypeError, ValueError):
            continue
        if text:
            yield f"[Page {number}]\n{text}"
