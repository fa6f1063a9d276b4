"""The passages of a text: on paragraph borders, of a bounded size, each with its place."""

import hypothesis.strategies as st
import pytest
from docx import Document
from hypothesis import given
from openpyxl import Workbook
from pptx import Presentation

from chatapp.files.kinds import DOCX, PDF, PPTX, TEXT, XLSX
from chatapp.files.passages import MAX_CHARACTERS, MIN_CHARACTERS, Passage, split_passages
from chatapp.files.reader import read_file

from . import office_files as office
from .papers import pdf

PARAGRAPH = "Ein Satz mit sechs Wörtern. " * 12


def places(name: str, media_type: str, text: str) -> list[tuple[str, str]]:
    return [(each.place_kind, each.place) for each in split_passages(name, media_type, text)]


def test_paragraphs_are_joined_up_to_a_size_and_not_cut() -> None:
    paragraphs = [f"{number}. {PARAGRAPH.strip()}" for number in range(12)]
    found = [each.text for each in split_passages("a.txt", TEXT, "\n\n".join(paragraphs))]
    assert "\n\n".join(found).split("\n\n") == paragraphs
    assert all(MIN_CHARACTERS <= len(each) <= MAX_CHARACTERS for each in found[:-1])


def test_each_page_of_a_pdf_begins_a_passage() -> None:
    text = "[Page 1]\nFirst words.\n\nMore words.\n\n[Page 3]\nThird page."
    assert places("a.pdf", PDF, text) == [("page", "1"), ("page", "3")]
    assert split_passages("a.pdf", PDF, text)[0].text == "First words.\n\nMore words."


def test_a_mark_in_a_plain_text_is_text() -> None:
    assert places("a.txt", TEXT, "[Page 7]\nNot a page.") == [("", "")]


def test_the_places_of_a_pdf_that_was_read_are_its_pages() -> None:
    found = read_file("pdf", pdf("Sold: 40", "Left: 2"), 1_000)
    assert places("a.pdf", found.media_type, found.words) == [("page", "1"), ("page", "2")]


def read_passages(data: bytes) -> list[Passage]:
    """Return the passages of an office file, read as one that somebody adds to a project."""
    found = read_file("package", data, 1_000_000)
    return split_passages("a", found.media_type, found.words)


def read_places(data: bytes) -> list[tuple[str, str]]:
    return [(each.place_kind, each.place) for each in read_passages(data)]


def test_each_slide_begins_a_passage() -> None:
    found = read_passages(office.slides())
    assert [(each.place_kind, each.place) for each in found] == [
        ("slide", "1: Plan"),
        ("slide", "2"),
    ]
    assert found[0].text == "## Slide 1: Plan\n\n- Buy boats\n- Sell boats\n\nNotes: Smile."


def test_a_long_slide_is_the_place_of_all_its_passages() -> None:
    show = Presentation()
    for title in ("Plan", "Costs"):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "\n".join([PARAGRAPH.strip()] * 8)
        slide._element.set("show", "0" if title == "Costs" else "1")
    found = read_places(office.saved(show))
    assert list(dict.fromkeys(found)) == [("slide", "1: Plan"), ("slide", "2 (hidden): Costs")]
    assert len(found) >= 4


def test_each_sheet_begins_a_passage_and_is_the_place_of_its_rows() -> None:
    book = Workbook()
    book.active.title = "Sales"
    for name in ("Sales", "Costs"):
        sheet = book.active if name == "Sales" else book.create_sheet(name)
        sheet.append(["Month", "Note"])
        for number in range(40):
            sheet.append([f"{name} {number}", "x" * 60])
    found = read_passages(office.saved(book))
    sheets = [each.place for each in found]
    assert {each.place_kind for each in found} == {"sheet"}
    assert list(dict.fromkeys(sheets)) == ["Sales", "Costs"]
    assert sheets.count("Sales") == sheets.count("Costs") >= 2
    assert all(each.place in each.text for each in found)
    assert all(line[0] in "|#" for each in found for line in each.text.split("\n"))
    assert read_places(office.workbook()) == [("sheet", "Sales"), ("sheet", "Old (hidden)")]


def test_headings_are_the_places_of_a_word_file() -> None:
    document = Document()
    for title in ("Gateway", "Restart"):
        document.add_heading(title, 1)
        document.add_paragraph(PARAGRAPH * 2)
    found = read_places(office.saved(document))
    assert found == [("heading", "Gateway"), ("heading", "Restart")]


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (office.word_file(), [("heading", "Minutes")]),
        (office.workbook(), [("", ""), ("sheet", "Sales"), ("sheet", "Old (hidden)")]),
        (office.slides(), [("", ""), ("slide", "1: Plan"), ("slide", "2")]),
    ],
    ids=["docx", "xlsx", "pptx"],
)
def test_a_note_on_macros_is_text_and_no_place(data: bytes, places: list[tuple[str, str]]) -> None:
    with_macros = office.with_parts(data, {"word/vbaProject.bin": b"Sub Auto()"})
    found = read_passages(with_macros)
    assert found[0].text.startswith("[The file has macros.")
    assert [(each.place_kind, each.place) for each in found] == places


def test_a_mark_of_another_kind_of_file_is_text() -> None:
    assert places("a.pptx", PPTX, "[Page 7]\nHello") == [("", "")]
    assert places("a.pdf", PDF, "## Slide 7\n\nHello") == [("", "")]


def test_a_few_words_before_the_first_heading_have_it_as_their_place() -> None:
    assert places("a.md", TEXT, "By Ada.\n\n# Gateway\n\nIt waits.") == [("heading", "Gateway")]


def test_headings_are_the_places_of_markdown() -> None:
    text = f"# Gateway\n\n{PARAGRAPH * 2}\n\n## Restart ##\n\n{PARAGRAPH * 2}"
    assert places("a.md", TEXT, text) == [("heading", "Gateway"), ("heading", "Restart")]


def test_the_places_of_a_table_are_rows() -> None:
    rows = ["name,note", 'tea,"two\nlines"', *(f"row {n},{'x' * 100}" for n in range(3, 30))]
    found = split_passages("prices.CSV", TEXT, "\n".join(rows))
    assert [each.place_kind for each in found] == ["row"] * len(found)
    assert found[0].place == "1"
    assert f"row {found[1].place}," in found[1].text.partition("\n")[0]


def test_a_table_that_is_none_is_split_by_lines() -> None:
    found = split_passages("a.csv", TEXT, '"' + "x" * 200_000 + "\nlast line")
    assert found[-1].text.endswith("last line")


KINDS = [("a.md", TEXT), ("a.csv", TEXT), ("a.xlsx", XLSX), ("a.pptx", PPTX), ("a.docx", DOCX)]


@given(st.text(alphabet='ab .\n[]#,"Page1|', max_size=6_000), st.sampled_from(KINDS))
def test_no_word_is_lost_and_no_passage_is_too_long(text: str, kind: tuple[str, str]) -> None:
    found = split_passages(*kind, text)
    assert "".join("".join(each.text for each in found).split()) == "".join(text.split())
    assert all(0 < len(each.text) <= MAX_CHARACTERS for each in found)


def test_a_long_line_of_spaces_in_a_heading_is_read_in_no_time() -> None:
    """A pattern that goes back over the spaces again and again would take hours."""
    text = f"# a{' ' * 500_000}b"
    assert places("a.md", TEXT, text)[0][1].startswith("a ")


def test_only_marks_that_close_a_heading_are_left_out() -> None:
    lines = {"# C#": "C#", "## Restart  ##": "Restart", "# # #": "#", "#none": ""}
    for line, place in lines.items():
        assert places("a.md", TEXT, line) == [("heading" if place else "", place)]
