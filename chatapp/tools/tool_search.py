"""Search for tools by words (BM25 over names, services and descriptions; Robertson and Zaragoza,
2009), and the choice of tools to send when the list is long."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from chatapp.permissions.word_splitting import split_words
from chatapp.tools.catalogue import CatalogueTool

# Terms in a name count more than those in a description.
NAME_WEIGHT = 3
SATURATION, LENGTH_WEIGHT = 1.2, 0.5
READ_CHARACTERS = 600
IDLE = set(split_words("a an and are at by can for from i in is it me my of on or the to with"))


def search_tools(query: str, tools: Mapping[str, CatalogueTool]) -> list[str]:
    """Return the ids of the tools that match a word of the query, best first, ties by id."""
    texts = {tool_id: _count_terms(tool) for tool_id, tool in tools.items()}
    wanted = set(map(_stem, split_words(query))) - IDLE
    scores = {
        tool_id: score * (1 + _score_name(wanted, tools[tool_id]))
        for tool_id, score in _score_terms(wanted, texts).items()
    }
    return sorted(scores, key=lambda tool_id: (-scores[tool_id], tool_id))


def _score_name(wanted: set[str], tool: CatalogueTool) -> float:
    """Return how much of the tool's name was asked for: of two tools, the shorter name wins."""
    words = set(map(_stem, split_words(tool.tool_name)))
    return len(words & wanted) / max(1, len(words))


def _score_terms(wanted: Iterable[str], texts: Mapping[str, Counter[str]]) -> dict[str, float]:
    lengths = {tool_id: terms.total() for tool_id, terms in texts.items()}
    average = sum(lengths.values()) / max(1, len(lengths))
    scores: Counter[str] = Counter()
    for term in wanted:
        holders = [tool_id for tool_id, terms in texts.items() if term in terms]
        rarity = math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for tool_id in holders:
            count = texts[tool_id][term]
            length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * lengths[tool_id] / average
            scores[tool_id] += (
                rarity * count * (SATURATION + 1) / (count + SATURATION * length)  # type: ignore[assignment]  # Counter adds floats as well
            )
    return dict(scores)


def _count_terms(tool: CatalogueTool) -> Counter[str]:
    terms: Counter[str] = Counter(map(_stem, split_words(tool.description[:READ_CHARACTERS])))
    for word in (*split_words(tool.tool_name), *split_words(tool.service_name)):
        terms[_stem(word)] += NAME_WEIGHT
    return terms


def _stem(word: str) -> str:
    """Return a rough stem that plurals and tenses of English share."""
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if len(word) - len(ending) >= 3 and word.endswith(ending):
            return word[: -len(ending)]
    return word


def choose_sent_tools(
    tools: Sequence[CatalogueTool], weights: Mapping[str, int], room: int, loaded: Sequence[str]
) -> tuple[list[CatalogueTool], int]:
    """Return the tools whose descriptions are sent, in a stable order, and the tokens that this
    saves.

    All tools if they fit into `room` tokens, otherwise those that were loaded, in the order in
    which they were loaded.
    """
    total = sum(weights[tool.tool_id] for tool in tools)
    if total <= room:
        return list(tools), 0
    by_id = {tool.tool_id: tool for tool in tools}
    sent = [by_id[name] for name in loaded if name in by_id]
    return sent, total - sum(weights[tool.tool_id] for tool in sent)
