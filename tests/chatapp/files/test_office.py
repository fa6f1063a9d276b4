"""Office files are read for their text and tables; hostile ones are refused in plain words."""

import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from chatapp.files import office_package, reader
from chatapp.files.kinds import DOCX, PPTX, XLSX
from chatapp.files.reader import FileText, Unreadable, read_file

from . import office_files as office

MOST = 64_000
LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)
FILE_ENTITY = '<!DOCTYPE x [<!ENTITY c SYSTEM "file:///etc/passwd">]>'


def read(data: bytes, most: int = MOST) -> FileText:
    return read_file("package", data, most)


# --- what people have ------------------------------------------------------------------------
def test_a_word_file_keeps_headings_lists_and_tables() -> None:
    found = read(office.word_file())
    assert found.media_type == DOCX
    assert found.words.split("\n\n") == [
        "# Minutes",
        "# Costs",
        "We agreed: 40 €, 日本語 🙂 شكرا.",
        "- First",
        "1. Second",
        "| Item | Price |\n| --- | --- |\n| A \\| B | 3 |",
        "After the table.",
    ]
    assert not found.was_cut


def test_accepted_changes_are_read_and_deleted_text_is_not() -> None:
    run = b"<w:r><w:t>%b</w:t></w:r>"
    changes = (
        b"<w:p><w:ins w:id='1' w:author='a'>" + run % b"New." + b"</w:ins>"
        b"<w:del w:id='2' w:author='a'><w:r><w:delText>Old.</w:delText></w:r></w:del></w:p><w:sdt>"
        b"<w:sdtContent><w:p>" + run % b"In a control." + b"</w:p></w:sdtContent></w:sdt><w:sectPr"
    )
    found = read(office.changed(office.word_file(), "word/document.xml", b"<w:sectPr", changes))
    assert found.words.endswith("New.\n\nIn a control.")
    assert "Old" not in found.words


def test_a_workbook_keeps_its_sheets_and_rows() -> None:
    assert read(office.workbook()) == FileText(
        media_type=XLSX,
        words="## Sheet: Sales\n| Month | Sold |\n| --- | --- |\n| May | 40 |\n| June |\n"
        "## Sheet: Old (hidden)\n| x |\n| --- |",
        was_cut=False,
        pages=2,
        rows=4,
    )


def test_slides_keep_titles_lists_tables_and_notes() -> None:
    assert read(office.slides()) == FileText(
        media_type=PPTX,
        words="## Slide 1: Plan\n\n- Buy boats\n- Sell boats\n\nNotes: Smile.\n\n"
        "## Slide 2\n\n| Boat | 3 m |\n| --- | --- |",
        was_cut=False,
        pages=2,
    )


@pytest.mark.parametrize(
    ("data", "name", "plain", "special"),
    [
        (
            office.word_file(),
            "word/document.xml",
            b"openxmlformats-officedocument.wordprocessingml.document.main",
            b"ms-word.document.macroEnabled.main",
        ),
        (
            office.workbook(),
            "xl/workbook.xml",
            b"openxmlformats-officedocument.spreadsheetml.sheet.main",
            b"ms-excel.sheet.macroEnabled.main",
        ),
        (
            office.slides(),
            "ppt/presentation.xml",
            b"openxmlformats-officedocument.presentationml.presentation.main",
            b"ms-powerpoint.slideshow.macroEnabled.main",
        ),
    ],
    ids=["docm", "xlsm", "ppsm"],
)
def test_macros_are_left_out_and_the_text_says_so(
    data: bytes, name: str, plain: bytes, special: bytes
) -> None:
    changed = office.changed(data, "[Content_Types].xml", plain, special)
    folder = name.partition("/")[0]
    found = read(office.with_parts(changed, {f"{folder}/vbaProject.bin": b"Sub Auto()"}))
    macros = "[The file has macros. They were left out and never run.]"
    assert found.words.startswith(macros)
    assert found.words.removeprefix(macros).strip() == read(data).words


def test_embedded_files_are_counted_and_not_opened() -> None:
    data = office.with_parts(office.word_file(), {"word/embeddings/a.docx": office.bomb(50)})
    assert read(data).words.startswith("[1 embedded files were left out.]")


def test_a_million_rows_are_cut_after_the_limit() -> None:
    found = read(office.long_sheet(1_000_000))
    assert (len(found.words), found.was_cut) == (MOST, True)
    assert 1_000 < found.rows < 10_000


def test_a_workbook_that_claims_the_largest_size_is_read_quickly() -> None:
    claimed = office.changed(
        office.workbook(), "xl/worksheets/sheet1.xml", b'ref="A1:B4"', b'ref="A1:XFD1048576"'
    )
    assert read(claimed) == read(office.workbook())


# --- what nobody should have -----------------------------------------------------------------
HOSTILE = {
    "zip bomb": (office.bomb(50), "too large when it is unpacked"),
    "many entries": (
        office.package({f"word/{n}.xml": b"" for n in range(6_000)}),
        "too large when it is unpacked",
    ),
    "nested archive": (office.package({"a.zip": office.bomb(20)}, types=""), "archives cannot"),
    "archive with types": (office.package({"a": b""}, types="<Types/>"), "archives cannot"),
    "billion laughs": (
        office.with_declaration(office.word_file(), LAUGHS, "&c;"),
        "its own XML entities",
    ),
    "laughs in UTF-16": (
        office.with_declaration(office.word_file(), LAUGHS, "&c;", "utf-16"),
        "its own XML entities",
    ),
    "file entity": (
        office.with_declaration(office.word_file(), FILE_ENTITY, "&c;"),
        "its own XML entities",
    ),
    "password": (office.with_password_flag(office.word_file()), "has a password"),
    "open document": (office.open_document(), "OpenDocument files"),
    "binary workbook": (
        office.package({}, types='<Types a="application/vnd.ms-excel.sheet.binary.main"/>'),
        "this office format cannot be read",
    ),
    "cut in the middle": (office.word_file()[:9_000], "damaged or too complex"),
    "no document": (office.package({"word/document.xml": "<a/>"}), "damaged or too complex"),
    "deep": (
        office.with_declaration(
            office.word_file(), "", "</w:t>" + "<w:r>" * 9_000 + "</w:r>" * 9_000 + "<w:t>"
        ),
        "damaged or too complex",
    ),
}


@pytest.mark.parametrize(("data", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_plain_words(data: bytes, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read(data)


def test_without_the_check_an_entity_would_still_not_be_expanded() -> None:
    """The libraries are the second defence: here each is asked alone."""
    data = office.with_declaration(office.word_file(), FILE_ENTITY, "&c;")
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(reader.CHILD.parents[2])!r})\n"
        "from chatapp.files.word_text import open_file\n"
        "data = sys.stdin.buffer.read()\n"
        f"main = '{DOCX}.main+xml'\n"
        "print(list(open_file(data, main).iterate_pieces()))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], input=data, capture_output=True)
    assert b"root:" not in done.stdout
    assert b"Minutes" in done.stdout


def test_nothing_that_a_file_names_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/template.dotx"
        relation = (
            f'<Relationship Id="rId99" TargetMode="External" Target="{address}" Type="http://'
            'schemas.openxmlformats.org/officeDocument/2006/relationships/attachedTemplate"/>'
        ).encode()
        data = office.changed(
            office.word_file(),
            "word/_rels/document.xml.rels",
            b"</Relationships>",
            relation + b"</Relationships>",
        )
        assert "Minutes" in read(data).words
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.create_connection(('127.0.0.1', int(sys.argv[1])))",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.execv('/bin/true', ['true'])",
    ],
    ids=["connect", "program", "exec"],
)
def test_the_process_that_reads_neither_connects_nor_starts_programs(attempt: str) -> None:
    folder = str(reader.CHILD.parent)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listener.accept, daemon=True)
        thread.start()
        for guard, ends in (("sys.addaudithook(reader_child.forbid)", 1), ("", 0)):
            program = (
                f"import sys; sys.path.insert(0, {folder!r}); import reader_child; {guard}\n"
                f"{attempt}"
            )
            port = str(listener.getsockname()[1])
            done = subprocess.run(
                [sys.executable, "-I", "-c", program, port], capture_output=True, text=True
            )
            assert done.returncode == ends, done.stderr
            assert ("PermissionError" in done.stderr) == bool(ends)


def test_each_bound_of_the_archive_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file is read with a higher bound."""
    entries: list[Any] = [
        type("Entry", (), {"filename": "a.xml", "file_size": 2_000_000, "compress_size": 1_000})()
    ]
    with pytest.raises(office_package.Problem):
        office_package._check_sizes(entries)
    monkeypatch.setattr(office_package, "MAX_RATIO", 3_000)
    office_package._check_sizes(entries)
    monkeypatch.setattr(office_package, "MAX_PART_BYTES", 1_000_000)
    with pytest.raises(office_package.Problem):
        office_package._check_sizes(entries)
