"""Lone surrogates in JSON that arrives in pieces of any size."""

import json

import pytest

from mcpconfig.net.lone_surrogates import SurrogateRepair

TEXTS = {
    r'"\ud83d"': "\ufffd",
    r'"\udc00"': "\ufffd",
    r'"\ud83d\ude00"': "\U0001f600",
    r'"\uD83D\uDE00"': "\U0001f600",
    r'"\ud83d\ud83d\ude00"': "\ufffd\U0001f600",
    r'"\ude00\ud83d"': "\ufffd\ufffd",
    r'"\ud83d\n"': "\ufffd\n",
    r'"\ud83dx\ude00"': "\ufffdx\ufffd",
    r'"\\ud83d"': r"\ud83d",
    r'"\\ud83d\ude00"': "\\ud83d\ufffd",
    r'"\\\ud83d\\"': "\\\ufffd\\",
    r'"\u00e9\ud7ff\ue000"': "\u00e9\ud7ff\ue000",
    r'"\ud83d\u00e9"': "\ufffd\u00e9",
    r'"\"\ud83d\""': '"\ufffd"',
}


def repair(text: str, size: int) -> bytes:
    body, repairing = text.encode(), SurrogateRepair()
    pieces = [repairing.repair(body[at : at + size]) for at in range(0, len(body), size)]
    return b"".join([*pieces, repairing.finish()])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 11, 100])
@pytest.mark.parametrize(("text", "expected"), TEXTS.items())
def test_halves_of_characters_are_replaced_and_all_else_stays(
    text: str, expected: str, size: int
) -> None:
    repaired = repair(text, size)
    assert json.loads(repaired) == expected
    assert len(repaired) == len(text)


@pytest.mark.parametrize("text", ["", "{}", "\\", r"\u", r"\ud8", r"a\ud83d\u", "\u00e9"])
def test_a_body_that_ends_too_early_stays_whole(text: str) -> None:
    assert len(repair(text, 2)) == len(text.encode())


def test_a_whole_piece_is_passed_on_at_once() -> None:
    assert SurrogateRepair().repair(rb'data: {"a": "\ud83d"}') == rb'data: {"a": "\ufffd"}'
