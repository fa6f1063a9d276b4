"""A model reads what a person can see, and nothing else."""

import pytest

from chatapp.tools.catalogue import strip_hidden, strip_hidden_in_schema

HIDDEN = [
    "\u0000",
    "\u001b",
    "\u0085",
    "\u00ad",
    "\u061c",
    "\u200b",
    "\u200d",
    "\u200e",
    "\u202e",
    "\u2066",
    "\u2069",
    "\ufeff",
    "\ufe0f",
    "\ue000",
    "\ud800",
    "\U000e0041",
    "\U000e007f",
    "\U000e0100",
]


@pytest.mark.parametrize("character", HIDDEN)
def test_a_hidden_character_is_taken_out(character: str) -> None:
    assert strip_hidden(f"sa{character}fe") == "safe"


@pytest.mark.parametrize("text", ["two\nlines\tand a tab", "Straße, 日本語, é, 😀", "a − b"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert strip_hidden(text) == text


def test_the_prose_of_a_schema_is_cleaned_and_its_values_are_not() -> None:
    schema = {
        "title": "A\u200b",
        "properties": {
            "a\u200b": {"description": "Say\u202e it", "enum": ["x\u200b"]},
            "description": {"type": "string", "description": "\U000e0041Text"},
        },
        "anyOf": [{"description": "B\u200b"}, True],
    }
    assert strip_hidden_in_schema(schema) == {
        "title": "A",
        "properties": {
            "a\u200b": {"description": "Say it", "enum": ["x\u200b"]},
            "description": {"type": "string", "description": "Text"},
        },
        "anyOf": [{"description": "B"}, True],
    }
