"""English sentences on pages are short."""

import re
import statistics
from collections.abc import Iterable

from translations.faults import list_forms
from translations.sources import extract_messages

MEDIAN_WORDS = 8
MOST_WORDS = 25
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")


def count_words(texts: Iterable[str]) -> dict[str, int]:
    """Return the number of words of each sentence."""
    sentences = (sentence for text in texts for sentence in SENTENCE_END.split(text.strip()))
    return {
        sentence: sum(bool(re.search(r"\w", word)) for word in sentence.split())
        for sentence in sentences
        if sentence
    }


def find_long(words: dict[str, int]) -> list[str]:
    return [sentence for sentence, count in words.items() if count > MOST_WORDS]


def test_sentences_are_short() -> None:
    words = count_words(form for message in extract_messages() for form in list_forms(message.id))
    assert find_long(words) == []
    assert statistics.median(words.values()) <= MEDIAN_WORDS


def test_a_long_sentence_is_found() -> None:
    words = count_words(["Short. " + "word " * 26, "One – two %(three)s."])
    assert list(words.values()) == [1, 26, 3]
    assert len(find_long(words)) == 1
