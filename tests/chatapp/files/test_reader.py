"""PDF files are read for their words; one that would do harm stops in a process of its own."""

import pytest

from chatapp.files import reader
from chatapp.files.kinds import PDF
from chatapp.files.reader import FileText, Unreadable, read_file

from .papers import bomb, encrypted, endless, pdf, pdf_of, stream

MOST = 1_000


def test_the_words_come_page_by_page() -> None:
    found = read_file("pdf", pdf("Sold: 40", "Left: 2"), MOST)
    assert found == FileText(
        media_type=PDF, pages=2, words="[Page 1]\nSold: 40\n\n[Page 2]\nLeft: 2", was_cut=False
    )


def test_pages_without_words_are_no_fault() -> None:
    assert read_file("pdf", pdf_of([stream(b"")] * 3), MOST) == FileText(
        media_type=PDF, pages=3, words="", was_cut=False
    )


def test_more_words_than_are_kept_are_cut_and_said_to_be() -> None:
    found = read_file("pdf", pdf("x" * 80, "never read"), 50)
    assert (len(found.words), found.was_cut, found.pages) == (50, True, 2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (encrypted("open sesame"), "has a password"),
        (encrypted(""), "has a password"),
        (pdf(*["x"] * 6), "has 6 pages. The limit is 5"),
        (b"%PDF-1.7 and nothing else", "cannot be read"),
        (pdf("Sold: 40")[:200], "cannot be read"),
        (b"%PDF-" + b"\x00" * 5_000, "cannot be read"),
        (endless(), "cannot be read"),
        (pdf_of([]), "cannot be read"),
    ],
    ids=["locked", "locked with nothing", "long", "stub", "cut", "zeros", "endless", "no pages"],
)
def test_what_cannot_be_read_says_why(settings: object, data: bytes, words: str) -> None:
    settings.PDF_MAX_PAGES = 5  # type: ignore[attr-defined]
    with pytest.raises(Unreadable, match=words):
        read_file("pdf", data, MOST)


def test_one_that_swells_or_takes_for_ever_is_stopped_in_time(settings: object) -> None:
    settings.FILE_READ_SECONDS = 1.5  # type: ignore[attr-defined]
    with pytest.raises(Unreadable, match="cannot be read"):
        read_file("pdf", bomb(70), 10**9)


def test_a_file_does_not_wait_for_others_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WAIT_SECONDS", 0)
    with reader._AT_ONCE, reader._AT_ONCE, pytest.raises(Unreadable, match="reading other files"):
        read_file("pdf", pdf("Sold: 40"), MOST)
    assert read_file("pdf", pdf("Sold: 40"), MOST).pages == 1


def test_the_process_that_reads_knows_no_secret_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    child = tmp_path / "child.py"  # type: ignore[operator]
    child.write_text(
        "import json, os, sys\n"
        "kept = sorted(os.environ)\n"
        "print(json.dumps({'media_type': '', 'pages': 1, 'words': str(kept), 'was_cut': False}))"
    )
    monkeypatch.setenv("SECRET_KEY", "not for PDF files")
    monkeypatch.setattr(reader, "CHILD", child)
    assert "SECRET_KEY" not in read_file("pdf", b"%PDF-", MOST).words
