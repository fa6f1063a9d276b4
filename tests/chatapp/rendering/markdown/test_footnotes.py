"""Footnotes with names: their numbers, their links, and that a stream does not flicker."""

import re

import pytest

from chatapp.rendering.figures.footnote_links import link_footnotes
from chatapp.rendering.markdown.stream import MarkdownStream, render_markdown
from tests.dom_tree import parse

NAMED = (
    "Rates rose,[^smith-2020] then fell.[^Kraus] Both agree.[^smith-2020]\n\n"
    "[^smith-2020]: Smith, *Rates*.\n[^kraus]: https://e.example\n"
)


def read_marks(html: str) -> list[tuple[str, str]]:
    return re.findall(r'<sup(?: class="([a-z -]+)")?>(\d+)</sup>', html)


def test_names_become_numbers_in_the_order_of_their_marks() -> None:
    html = render_markdown(NAMED)
    assert read_marks(html) == [
        ("fn fn-first", "1"),
        ("fn fn-first", "2"),
        ("fn", "1"),
        ("fn-back", "1"),
        ("fn-back", "2"),
    ]
    assert "smith" not in html
    assert '<p class="footnote"><sup class="fn-back">1</sup> Smith, <em>Rates</em>.</p>' in html


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        ("A[^x] b[^1] c[^2].\n\n[^x]: X\n[^1]: One\n[^2]: Two", "123 123"),
        ("A[^2] b[^x].\n\n[^2]: Two\n[^x]: X", "21 21"),
        ("[^x]: X\n\nA[^x].", "1 1"),
        ("A[^x].\n\n[^x]: X\n\n[^x]: Again", "1 11"),
    ],
    ids=["a name and numbers", "a number first", "the text first", "two texts"],
)
def test_no_two_footnotes_have_the_same_number(source: str, labels: str) -> None:
    found = "".join(label for _kind, label in read_marks(render_markdown(source)))
    assert found == labels.replace(" ", "")


@pytest.mark.parametrize(
    "source",
    [
        "Use [^abc] to match another letter.",
        "Use [^a-z0-9] here.",
        "`[^smith]` and \\[^smith]\n\n[^smith]: Smith",
        "[^smith](https://e.example)\n\n[^smith]: Smith",
        "[^two words]\n\n[^two words]: x",
    ],
)
def test_what_no_footnote_defines_stays_text(source: str) -> None:
    shown = render_markdown(source).partition('<p class="footnote">')[0]
    assert "<sup" not in shown


def test_a_range_is_a_mark_if_a_footnote_has_this_name() -> None:
    assert read_marks(render_markdown("A.[^a-b]\n\n[^a-b]: Both"))[0] == ("fn fn-first", "1")


def stream(text: str, size: int = 1) -> tuple[list[str], bool]:
    """Return the page after each frame, and whether the end replaced it."""
    writing, pages = MarkdownStream(), []
    for start in range(0, len(text), size):
        writing.feed(text[start : start + size])
        writing.frame()
        pages.append("".join(writing.snapshot()))
    return pages, writing.finish().whole is not None


def test_a_stream_shows_a_mark_as_such_from_the_first_frame_on() -> None:
    pages, is_replaced = stream(NAMED)
    assert not is_replaced
    assert not any("[" in page or "^" in page or "smith" in page for page in pages)
    for before, after in zip(pages, pages[1:], strict=False):
        assert read_marks(before) == read_marks(after)[: len(read_marks(before))]
    # A regular expression is no mark while it is written, either.
    assert not any("<sup" in page for page in stream("Use [^a-z] here.")[0])


def test_a_mark_without_a_text_becomes_text_at_the_end_of_the_stream() -> None:
    pages, is_replaced = stream("Rates rose.[^smith]\n\nEnd.\n")
    assert "<sup" in pages[-1]
    assert is_replaced


# --- links ---------------------------------------------------------------------------------------
def test_marks_and_texts_lead_to_each_other_with_ids_of_their_own() -> None:
    page = parse(link_footnotes(render_markdown(NAMED), "a") + link_footnotes(NAMED_HTML, "b"))
    ids = [each["id"] for each in page.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids)) == 8
    for link in page.all("a"):
        if link["href"].startswith("#"):
            assert link["href"].removeprefix("#") in ids
    assert all(each["class"] == "fn" for each in page.all("sup"))
    text = page.one("p", id="a-note-1")
    assert text.one("a")["href"] == "#a-mark-1"
    assert text.one("a")["aria-label"] == "Back to the mark of footnote 1"
    assert page.one("sup", id="a-mark-1").one("a")["href"] == "#a-note-1"


NAMED_HTML = render_markdown(NAMED)


def test_a_mark_in_a_link_is_no_link_of_its_own() -> None:
    html = link_footnotes(render_markdown("[A[^x]](https://e.example) b[^x]\n\n[^x]: X"), "a")
    assert parse(html).one("a", href="https://e.example").all("a") == []
    assert parse(html).one("sup", id="a-mark-1")


def test_text_of_a_message_makes_no_links() -> None:
    lure = '<sup class="fn">1</sup> `<sup class="fn">1</sup>`'
    assert "<a " not in link_footnotes(render_markdown(lure), "a")
