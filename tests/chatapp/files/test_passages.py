"""The passages of a text: on paragraph borders, of a bounded size, each with its place."""

import hypothesis.strategies as st
from hypothesis import given

from chatapp.files.kinds import PDF, TEXT
from chatapp.files.passages import MAX_CHARACTERS, MIN_CHARACTERS, split_passages

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


def test_other_marks_of_our_readers_are_headings() -> None:
    assert places("a.pptx", "application/x", "[Slide 2]\nHello") == [("heading", "Slide 2")]


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


@given(st.text(alphabet='ab .\n[]#,"Page1', max_size=6_000), st.sampled_from(["a.md", "a.csv"]))
def test_no_word_is_lost_and_no_passage_is_too_long(text: str, name: str) -> None:
    found = split_passages(name, TEXT, text)
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
