"""Numbers as text: what counts as one."""

import pytest

from mcpconfig.values.numbers import read_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("0042", 42), ("9" * 18, 10**18 - 1)])
def test_a_whole_number_is_read(text: str, number: int) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "1.0", " 1", "1_0", "²", "٣", "9" * 19, "9" * 5_000, "x"]
)
def test_other_text_is_none(text: str) -> None:
    assert read_number(text) is None
