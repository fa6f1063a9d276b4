"""Hostile sizes and depths: bounded work, and never a word lost."""

import time

import pytest

from chatapp.rendering.markdown.blocks import MAX_BLOCK_CHARS, MAX_DOCUMENT_CHARS, PLAIN_PIECE_CHARS
from chatapp.rendering.markdown.stream import MarkdownStream, render_markdown
from tests.chatapp.rendering.documents import Page, pieces_of
from tests.chatapp.rendering.inspection import Inspection

SIZE = 100_000

WORST = {
    "backticks": "`" * SIZE,
    "runs of backticks": "".join("`" * (i % 300) + " " for i in range(600)),
    "open brackets": "[" * SIZE,
    "open images": "![" * (SIZE // 2),
    "brackets on lines": "[\n" * (SIZE // 2),
    "half links": "[a](" * (SIZE // 4),
    "half titles": '[a](b "' * (SIZE // 7),
    "stars": "*" * SIZE,
    "open emphasis": "**a _b " * (SIZE // 7),
    "inner emphasis": "a**b" * (SIZE // 4),
    "quotes": ">" * SIZE,
    "quoted lists": "> - " * (SIZE // 4),
    "lists on a line": "- " * (SIZE // 2),
    "nested list": "".join(" " * (2 * depth) + "- a\n" for depth in range(300)),
    "narrow table": "|a|\n|-|\n" + "|b|\n" * (SIZE // 4),
    "wide table": "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + "|x\n" * 13,
    "dollars": "$a " * (SIZE // 3),
    "escaped dollars": "$a" + "\\$" * (SIZE // 2),
    "open formulas": "\\(" * (SIZE // 2),
    "formula blocks": "$$\n" * (SIZE // 3),
    "addresses": "<http:" * (SIZE // 6),
    "addresses in a word": "https://a.b/." * (SIZE // 13),
    "quoted addresses": 'https://a.b/"' * (SIZE // 13),
    "open addresses": "https://a.b/(" * (SIZE // 13),
    "hosts": "https://" + "a." * (SIZE // 2),
    "tasks": "- [ ] a\n" * (SIZE // 8),
    "footnotes": "[^1]: a\n" * (SIZE // 8),
    "marks of footnotes": "[^1]" * (SIZE // 4),
    "definitions": "".join(f"[{i}]: http://h.example/{i}\n\n" for i in range(3_000)),
    "headings": "a\n=\n" * (SIZE // 4),
    "short lines": "a\n" * (SIZE // 2),
    "fences in lists": "- ```\n" * (SIZE // 6),
    "spaces": " " * SIZE + "a",
}


@pytest.mark.gate
@pytest.mark.parametrize("name", WORST)
def test_the_worst_input_takes_bounded_time(name: str) -> None:
    """Quadratic work on any of these takes minutes and is ended by the timeout of the test."""
    html = render_markdown(WORST[name])
    assert Inspection(html).violations == []
    assert len(html) < 12 * SIZE


@pytest.mark.long
@pytest.mark.parametrize("name", WORST)
def test_the_worst_input_takes_bounded_time_while_it_streams(name: str) -> None:
    text = WORST[name][:10_000]
    stream, page = MarkdownStream(), Page()
    for piece in pieces_of(text, 1, longest=2_000):
        stream.feed(piece)
        page.apply(stream.frame())
    page.apply(stream.finish())
    assert page.closed == render_markdown(text)


def test_what_is_nested_too_deeply_is_shown_as_it_was_written() -> None:
    deep = "> " * 200 + "the core"
    shown = Inspection(render_markdown(f"before\n\n{deep}\n\n**after**"))
    assert "blockquote" not in shown.tags
    assert "> > the core" in shown.text
    assert "**after**" in shown.text
    assert shown.text.startswith("before")


def test_a_usual_depth_is_markdown() -> None:
    source = "".join("  " * depth + "- item\n" for depth in range(10))
    assert Inspection(render_markdown(source)).tags.count("ul") == 10


def test_brackets_inside_brackets_are_text() -> None:
    assert render_markdown("[" * 21 + "*a*") == "<p>" + "[" * 21 + "*a*</p>\n"
    assert "<em>" in render_markdown("[" * 20 + "*a*")


@pytest.mark.parametrize(
    "block",
    ["**item** of a paragraph\n" * (MAX_BLOCK_CHARS // 20), "|a|\n|-|\n" + "|b|\n" * 3_000],
    ids=["characters", "tokens"],
)
def test_from_a_block_that_is_too_long_on_everything_is_plain(block: str) -> None:
    text = f"**before**\n\n{block}\n**after**\n"
    shown = Inspection(render_markdown(text))
    assert shown.tags.count("strong") == 1 and "table" not in shown.tags
    assert "**after**" in shown.text
    assert_streams_to_the_same(text)


def test_a_document_that_is_too_long_is_plain_from_its_last_whole_block_on() -> None:
    paragraph = "**word** " * 10 + "\n\n"
    text = paragraph * (MAX_DOCUMENT_CHARS // len(paragraph) + 20)
    html = render_markdown(text)
    assert html.startswith("<p><strong>word</strong>")
    assert html.endswith("**word** **word** </p>\n")
    assert Inspection(html).text.replace("*", "").split() == text.replace("*", "").split()
    assert_streams_to_the_same(text)


def test_a_fence_that_is_too_long_is_plain_text_and_loses_nothing() -> None:
    text = (
        "intro\n\n```\n" + "x = 1  # code\n" * (MAX_DOCUMENT_CHARS // 14 + 100) + "```\n\n**end**"
    )
    html = render_markdown(text)
    assert "figure" not in Inspection(html).tags
    assert html.count("x = 1") == text.count("x = 1")
    assert_streams_to_the_same(text)


@pytest.mark.long
def test_a_fence_that_becomes_too_long_goes_on_as_plain_text() -> None:
    stream = MarkdownStream()
    stream.feed("```\nx = 1\n")
    assert "figure" in (stream.frame().tail or "")
    stream.feed("x = 1\n" * (MAX_DOCUMENT_CHARS // 6 + 100))
    closed = stream.frame().closed
    _, tail = stream.snapshot()
    assert closed.startswith("<p>```<br>x = 1")
    assert len(tail) < 2 * PLAIN_PIECE_CHARS


def test_a_long_fence_is_still_code() -> None:
    text = "```\n" + "x = 1  # code\n" * (2 * MAX_BLOCK_CHARS // 14) + "```\n\n**end**"
    assert Inspection(render_markdown(text)).tags.count("figure") == 1
    assert_streams_to_the_same(text)


def test_one_endless_line_is_shown_and_streams_to_the_same() -> None:
    text = "word " * (2 * MAX_BLOCK_CHARS // 5)
    assert render_markdown(text).count("word") == text.count("word")
    assert_streams_to_the_same(text)


@pytest.mark.long
def test_the_cost_of_an_answer_grows_with_its_length_only() -> None:
    section = "Some **words** {n} of a paragraph with `code`.\n\n- one {n}\n- two {n}\n\n"
    short, long = (
        stream_cost("".join(section.replace("{n}", str(n)) for n in range(count)))
        for count in (100, 1_000)
    )
    assert long / short < 30


def stream_cost(text: str) -> float:
    stream = MarkdownStream()
    started = time.process_time()
    for start in range(0, len(text), 32):
        stream.feed(text[start : start + 32])
        stream.frame()
    stream.finish()
    return time.process_time() - started


def assert_streams_to_the_same(text: str) -> None:
    stream, page = MarkdownStream(), Page()
    for piece in pieces_of(text, 3, longest=len(text) // 15):
        stream.feed(piece)
        page.apply(stream.frame())
        assert stream.snapshot() == (page.closed, page.tail)
    end = stream.finish()
    page.apply(end)
    assert end.whole is None
    assert page.closed == render_markdown(text)
