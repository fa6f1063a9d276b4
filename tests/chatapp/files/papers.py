"""PDF files as people have them, and as nobody should: written by hand, object by object."""

import io
import zlib

from pypdf import PdfReader, PdfWriter


def pdf(*texts: str) -> bytes:
    """A PDF with these words, a page each."""
    pages = [f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode() for text in texts]
    return pdf_of([stream(page) for page in pages])


def pdf_of(contents: list[bytes], kids: bytes = b"") -> bytes:
    """A PDF whose pages have these content streams."""
    first = 4
    places = range(first, first + 2 * len(contents), 2)
    kids = kids or b" ".join(b"%d 0 R" % place for place in places)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(contents), kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for place, content in zip(places, contents, strict=True):
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (place + 1)
        )
        objects.append(content)
    return _written(objects)


def stream(data: bytes, packed: bool = False) -> bytes:
    if not packed:
        return b"<</Length %d>>\nstream\n%b\nendstream" % (len(data), data)
    small = zlib.compress(data, 9)
    entries = b"/Length %d/Filter/FlateDecode" % len(small)
    return b"<<%b>>\nstream\n%b\nendstream" % (entries, small)


def encrypted(password: str) -> bytes:
    writer = PdfWriter(PdfReader(io.BytesIO(pdf("Secret"))))
    writer.encrypt(password)
    return _saved(writer)


def bomb(megabytes: int) -> bytes:
    """A page that is small until it is unpacked."""
    return pdf_of([stream(b"(x) Tj " * (megabytes * 1_000_000 // 7), packed=True)])


def endless() -> bytes:
    """Pages that are their own parents' children."""
    return pdf_of([stream(b"")], kids=b"2 0 R 2 0 R")


def _written(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return bytes(out + end % (len(objects) + 1, table))


def _saved(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
