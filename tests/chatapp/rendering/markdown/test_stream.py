"""A streamed answer: closed blocks stay, the end is what a reload shows, pieces do not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.rendering.markdown.blocks import (
    divide_blocks,
    render_division,
    render_prose_line,
)
from chatapp.rendering.markdown.code_colours import _colour_section
from chatapp.rendering.markdown.stream import MarkdownStream, Update, render_markdown
from tests.chatapp.rendering.documents import DEFINITIONS, SNIPPETS, Page, nasty_document, pieces_of

documents = st.lists(
    st.sampled_from(SNIPPETS + DEFINITIONS) | st.text(max_size=4), max_size=30
).map("".join)


def stream_document(pieces: list[str]) -> tuple[Page, Update]:
    """The page after all pieces, checking on the way what must hold after every frame."""
    stream, page = MarkdownStream(), Page()
    for piece in pieces:
        stream.feed(piece)
        page.apply(stream.frame())
        assert stream.snapshot() == (page.closed, page.tail)
    end = stream.finish()
    page.apply(end)
    return page, end


@pytest.mark.gate
@pytest.mark.parametrize(
    "seeds", [range(400), pytest.param(range(400, 4_000), marks=pytest.mark.long)]
)
def test_nasty_documents_end_as_their_whole_render(seeds: range) -> None:
    for seed in seeds:
        text = nasty_document(seed)
        page, end = stream_document(pieces_of(text, seed, longest=16))
        assert page.closed == render_markdown(text), (seed, text)
        assert page.tail == ""
        # A mark of a footnote whose text never came is no link any more.
        assert end.whole is None or "[^" in text, (seed, text)


def test_documents_with_late_definitions_end_as_their_whole_render() -> None:
    replaced = 0
    for seed in range(500):
        text = nasty_document(seed, with_definitions=True)
        page, end = stream_document(pieces_of(text, seed, longest=16))
        assert page.closed == render_markdown(text), (seed, text)
        replaced += end.whole is not None
    assert replaced


@given(documents, st.integers(0, 99), st.integers(1, 40))
def test_any_text_in_any_pieces_ends_as_its_whole_render(text: str, seed: int, size: int) -> None:
    page, _ = stream_document(pieces_of(text, seed, longest=size))
    assert page.closed == render_markdown(text)


@given(documents, st.integers(0, 99))
def test_the_same_text_shows_the_same_whatever_its_pieces(text: str, seed: int) -> None:
    slow, fast = MarkdownStream(), MarkdownStream()
    for character in text:
        slow.feed(character)
        slow.frame()
    for piece in pieces_of(text, seed, longest=50):
        fast.feed(piece)
        fast.frame()
    assert slow.snapshot() == fast.snapshot()


SIGNS = "\t,.;:()'\"!?%/+=–…-*`~[]<>&#|\\\\$^@\n\u00a0\u0301"
LINES = st.text(alphabet=f"abcÄéж语1_ {SIGNS}", max_size=12)


@given(LINES | documents)
def test_a_line_without_markup_is_rendered_as_the_parser_does(text: str) -> None:
    prose = render_prose_line(text)
    if prose is not None:
        parsed = render_division(text, divide_blocks(text), {}, is_growing=True)
        assert prose == parsed


def test_prose_needs_no_parser_and_markup_does() -> None:
    assert render_prose_line("Ja, “so” (oder: nicht)") is None  # for the colon of an address
    assert render_prose_line('She said "no", twice - so it is…  ') == (
        '<p>She said "no", twice - so it is…</p>\n'
    )
    for text in ("a *b*", "a_b_", "1. a", "- a", "a\nb", "a `b`", "a [b]", "a<b", "a&b", " a", ""):
        assert render_prose_line(text) is None


@given(documents)
def test_a_closed_block_never_changes(text: str) -> None:
    stream, closed = MarkdownStream(), ""
    for character in text:
        stream.feed(character)
        stream.frame()
        now, _ = stream.snapshot()
        assert now.startswith(closed)
        closed = now


def test_a_paragraph_closes_when_the_next_block_begins() -> None:
    stream = MarkdownStream()
    stream.feed("First.\n\nSecond")
    assert stream.frame() == Update(tail="<p>First.</p>\n<p>Second</p>\n")
    stream.feed(" and\n")
    assert stream.frame() == Update(closed="<p>First.</p>\n", tail="<p>Second and</p>\n")


def test_nothing_new_is_an_empty_update() -> None:
    stream = MarkdownStream()
    stream.feed("word")
    stream.frame()
    assert not stream.frame()


def test_an_open_fence_grows_by_text_and_is_coloured_when_it_closes() -> None:
    stream = MarkdownStream()
    stream.feed("```python\ndef f")
    opened = stream.frame()
    assert opened.tail is not None and "def f</code>" in opened.tail and "<span" not in opened.tail
    stream.feed("(): pass\n``")
    assert stream.frame() == Update(code="(): pass\n")
    stream.feed("`\n")
    closed = stream.frame()
    assert '<span class="k">def</span>' in closed.closed
    assert closed.tail == ""


def test_the_end_of_a_long_fence_has_only_its_last_section_to_colour() -> None:
    stream = MarkdownStream()
    stream.feed("```python\n" + "".join(f"streamed_{n} = {n}\n" for n in range(1_000)))
    stream.frame()
    before = _colour_section.cache_info().misses
    stream.feed("```\n")
    assert "streamed_999" in stream.frame().closed
    assert _colour_section.cache_info().misses == before + 1


def test_a_line_that_only_looked_like_the_end_of_the_fence_is_shown() -> None:
    stream, page = MarkdownStream(), Page()
    for piece in ["~~~\na\n", "~~", "~ no\n", "b"]:
        stream.feed(piece)
        page.apply(stream.frame())
    assert "<code>a\n~~~ no\nb</code>" in page.tail


def test_the_indent_of_a_fence_is_taken_from_its_lines() -> None:
    stream, page = MarkdownStream(), Page()
    for piece in ["  ```\n", " ", "   deep\n", "  x"]:
        stream.feed(piece)
        page.apply(stream.frame())
    assert "<code>  deep\nx</code>" in page.tail


def test_code_that_grows_inside_a_list_has_no_colours_yet() -> None:
    stream = MarkdownStream()
    stream.feed("- x\n  ```py\n  def f(a: dict[str, int]): pass\n")
    assert "<span" not in (stream.frame().tail or "")
    stream.feed("  ```\n- next item\n")
    assert '<span class="k">def</span>' in (stream.frame().tail or "")


@pytest.mark.parametrize("half", ["-", "---", "#", "|", "1.", "```pyt", "**", "$$", "> ", "\\["])
def test_half_a_line_of_markup_waits_for_its_first_word(half: str) -> None:
    stream = MarkdownStream()
    stream.feed(f"words\n{half}")
    assert stream.frame().tail == "<p>words</p>\n"
    assert "words" in stream.finish().closed


def test_half_a_line_end_is_none() -> None:
    stream = MarkdownStream()
    stream.feed("a\r")
    assert stream.frame().tail == "<p>a</p>\n"
    stream.feed("\nb\r")
    stream.frame()
    assert stream.finish().closed == "<p>a\nb</p>\n"


def test_a_definition_from_before_is_known_afterwards() -> None:
    stream = MarkdownStream()
    stream.feed("[x]: https://e.example\n\nSee [x].\n\nMore\n")
    assert 'href="https://e.example"' in stream.frame().closed
    assert stream.finish().whole is None


def test_a_definition_that_comes_late_replaces_everything_at_the_end() -> None:
    stream = MarkdownStream()
    stream.feed("See [x].\n\nMore\n\n[x]: https://e.example\n")
    assert "href" not in stream.frame().closed
    whole = stream.finish().whole
    assert whole is not None and 'href="https://e.example"' in whole
    assert stream.snapshot() == (whole, "")


def test_a_long_tail_is_sent_less_often() -> None:
    stream = MarkdownStream()
    assert stream.suggested_interval_seconds == 0.04
    stream.feed("- item of a list\n" * 400)
    stream.frame()
    assert 0.08 < stream.suggested_interval_seconds < 0.25
    stream.feed("- item of a list\n" * 1_000)
    stream.frame()
    assert stream.suggested_interval_seconds == 0.25


def test_an_open_fence_is_sent_at_full_rate_however_long() -> None:
    stream = MarkdownStream()
    stream.feed("```\n" + "code\n" * 3_000)
    stream.frame()
    assert stream.suggested_interval_seconds == 0.04
