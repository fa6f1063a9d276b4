"""Colours of code: nothing of the text changes, long code is coloured section by section."""

import pytest

from chatapp.rendering.markdown.code_colours import (
    LANGUAGES,
    MAX_LINE_CHARS,
    MAX_LINES,
    SECTION_LINES,
    SECTION_MAX_LINES,
    GrowingCode,
    _colour_section,
    colour_code,
    count_first_section,
)
from tests.chatapp.rendering.inspection import Inspection

PYTHON = (
    '@cached\ndef f(x: int) -> str:\n    """Doc."""\n    return "é" + str(x < 2)  # why & how\n'
)


def function(number: int) -> str:
    return f"def f_{number}():\n    a = 1\n    b = 2\n    c = 3\n    return a\n\n"


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_keeps_the_text_and_uses_few_classes(language: str) -> None:
    code = f"\n\n{PYTHON}<tag a='b'>\n+ added\n- removed\n/* x */ let y = 0x1F;\n\n"
    shown = Inspection(colour_code(code, language))
    assert shown.violations == []
    assert shown.text == code


def test_each_kind_of_token_has_its_class() -> None:
    html = colour_code(PYTHON + "1\n", "python")
    for span in (
        '<span class="nf">@cached</span>',
        '<span class="k">def</span>',
        '<span class="nf">f</span>',
        '<span class="c"># why &amp; how</span>',
        '<span class="m">1</span>',
    ):
        assert span in html
    assert '<span class="gi">+a\n</span>' in colour_code("+a\n-b\n", "diff")
    assert '<span class="gd">-b\n</span>' in colour_code("+a\n-b\n", "diff")


@pytest.mark.parametrize("language", ["", "klingon", "../python", "python onclick"])
def test_a_language_that_is_not_listed_has_no_colours(language: str) -> None:
    assert colour_code("def <f>", language) == "def &lt;f&gt;"


def test_a_name_in_capitals_is_the_same_language() -> None:
    assert colour_code(PYTHON, "Python") == colour_code(PYTHON, "python")


def test_too_many_lines_have_no_colours() -> None:
    assert "<span" in colour_code("x = 1\n" * MAX_LINES, "python")
    assert "<span" not in colour_code("x = 1\n" * (MAX_LINES + 1), "python")


def test_a_line_that_is_too_long_has_no_colours() -> None:
    assert "<span" in colour_code("1" * MAX_LINE_CHARS, "python")
    assert "<span" not in colour_code("1" * (MAX_LINE_CHARS + 1), "python")


def test_too_many_characters_have_no_colours() -> None:
    line = "x = 1" + " " * 1_000 + "\n"
    assert "<span" in colour_code(line * 90, "python")
    assert "<span" not in colour_code(line * 110, "python")


def test_a_section_ends_before_an_unindented_line_after_an_empty_one() -> None:
    lines = [line + "\n" for line in "".join(map(function, range(80))).split("\n")]
    count = count_first_section(lines)
    assert count is not None and SECTION_LINES <= count < SECTION_MAX_LINES
    assert lines[count].startswith("def ")
    assert count_first_section(lines[:count]) is None
    assert count_first_section(["x\n"] * 10_000) == SECTION_MAX_LINES


def test_long_code_keeps_its_text_and_its_colours() -> None:
    code = "".join(map(function, range(150)))
    shown = colour_code(code, "python")
    assert Inspection(shown).text == code
    assert shown.count('<span class="k">def</span>') == 150


def test_growing_code_has_its_sections_coloured_when_it_ends() -> None:
    lines = [f"value_{number} = {number}\n" for number in range(SECTION_MAX_LINES + 10)]
    growing = GrowingCode("python")
    for line in lines:
        growing.add(line)
    before = _colour_section.cache_info().misses
    colour_code("".join(lines), "python")
    assert _colour_section.cache_info().misses == before + 1
