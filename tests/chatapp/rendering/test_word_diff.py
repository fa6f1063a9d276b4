"""A difference shows every changed word and every hidden character, and nothing as markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.rendering.word_diff import render_word_diff


def get_marked(html: str, *, of: str) -> str:
    """What stood before (`del`) or stands now (`ins`), from the difference alone."""
    gone = {"del": "ins", "ins": "del"}[of]
    kept = re.sub(f"<{gone}>.*?</{gone}>", "", html, flags=re.DOTALL)
    return re.sub(r"</?(del|ins)>", "", kept).replace("⏎\n", "\n")


@pytest.mark.parametrize(
    ("before", "after", "html"),
    [
        (
            "Deletes one note.",
            "Deletes every note.",
            "Deletes<del> one</del><ins> every</ins> note.",
        ),
        ("Reads.", "Reads. Then sends.", "Reads.<ins> Then sends.</ins>"),
        ("a b", "a", "a<del> b</del>"),
        ("", "new", "<ins>new</ins>"),
        ("one\ntwo\n", "one\n\ntwo\n", "one\n<ins>⏎\n</ins>two\n"),
        ("a < b", "a > b", "a <del>&lt;</del><ins>&gt;</ins> b"),
        (
            "note",
            "no\u200bte",
            '<del>note</del><ins>no<span class="hidden-char">⟨U+200B⟩</span>te</ins>',
        ),
        (
            "x\u202ey",
            "x\u202ez",
            'x<span class="hidden-char">⟨U+202E⟩</span><del>y</del><ins>z</ins>',
        ),
    ],
)
def test_changed_words_are_marked(before: str, after: str, html: str) -> None:
    assert render_word_diff(before, after) == html


def test_markup_of_a_service_stays_text() -> None:
    html = render_word_diff("<b>a</b>", "</ins><script>alert(1)</script>")
    assert not re.search(r"<(?!/?(del|ins)>)", html)


def test_what_is_far_from_a_change_is_left_out_and_counted() -> None:
    lines = [f"line {number}\n" for number in range(40)]
    html = render_word_diff("".join(lines), "".join([*lines[:20], "more\n", *lines[20:]]))
    assert html.startswith('<span class="same">⋯ 18 unchanged lines</span>\nline 18\nline 19\n')
    assert html.endswith('line 20\nline 21\n<span class="same">⋯ 18 unchanged lines</span>\n')


@given(st.text(alphabet="ab \n<&", max_size=40), st.text(alphabet="ab \n<&", max_size=40))
def test_both_texts_can_be_read_off_the_difference(before: str, after: str) -> None:
    html = render_word_diff(before, after)
    if "unchanged line" not in html:
        escaped = {"<": "&lt;", "&": "&amp;"}
        for text, of in ((before, "del"), (after, "ins")):
            assert get_marked(html, of=of) == "".join(escaped.get(each, each) for each in text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a " * 50_000, "b " * 50_000),
        ("a\n" * 50_000, "a\nb\n" * 25_000),
        ("ab" * 20 + "\n" + "x y " * 400, "x y " * 401),
        ("x\n" * 999, "y\nx\n" * 499),
        ("x\n" * 140, "y\nx\n" * 140),
    ],
)
def test_a_service_cannot_make_comparing_take_for_ever(before: str, after: str) -> None:
    html = render_word_diff(before, after)
    assert "<ins>" in html
