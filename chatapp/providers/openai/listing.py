"""Reads the lists of models of OpenAI and of compatible servers. Imports no SDK."""

from collections.abc import Iterable
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from chatapp.providers.account import ListedModel, ListedPrice

# OpenAI lists all of its models at one address, not only those for chats.
NOT_FOR_CHAT = (
    *("embed", "whisper", "tts-", "-tts", "dall-e", "moderation", "transcribe", "realtime"),
    *("-image", "sora", "davinci-002", "babbage-002", "rerank", "gpt-audio", "-audio-"),
)
# Names of models that make vectors, at servers that list all models without their types.
EMBEDDERS = ("embed", "minilm", "bge-", "gte-", "e5-base", "e5-small", "e5-large")
# The types of LM Studio, Together and others, and the capabilities of llama.cpp and Mistral.
CHAT_TYPES = {"llm", "vlm", "chat", "language", "model", "text-generation", "completion"}
CHAT_CAPABILITIES = {"completion", "completions", "chat", "completion_chat", "multimodal"}
# A model id in a chat also has a prefix, within 200 characters.
MAX_NAME = 180
MAX_LABEL = 100
# No model reads or writes as many tokens.
MAX_TOKENS = 10**9
# More than any model costs for a million tokens, and what a column can store.
MAX_PRICE = Decimal(100_000)
MILLION = Decimal(1_000_000)
SMALLEST_PRICE = Decimal("0.000001")


def read_models(answer: object) -> tuple[ListedModel, ...] | None:
    """Return the models in the order of the server, or None for an answer that is no list."""
    rows = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        return None
    # llama.cpp has the capabilities in a second list.
    others = answer.get("models") if isinstance(answer, dict) else None
    second = {
        row["name"]: row.get("capabilities")
        for row in (others if isinstance(others, list) else [])
        if isinstance(row, dict) and isinstance(row.get("name"), str)
    }
    found: dict[str, ListedModel] = {}
    for row in rows:
        model = _read_model(row)
        if model and _is_for_chat(row, second.get(model.name)):
            found.setdefault(model.name, model)
    return tuple(found.values())


def _is_for_chat(row: dict[str, Any], second: object) -> bool:
    """Whether the list does not say that a model is for something else, such as vectors."""
    kind = row.get("type")
    if isinstance(kind, str) and kind and kind.lower() not in CHAT_TYPES:
        return False
    for said in (row.get("capabilities"), second):
        if isinstance(said, dict):
            # Mistral has a flag for each capability.
            if said.get("completion_chat") is False:
                return False
        elif isinstance(said, list) and any("embed" in str(word).lower() for word in said):
            return bool(CHAT_CAPABILITIES & {str(word).lower() for word in said})
    return not any(word in str(row["id"]).lower() for word in EMBEDDERS)


def _read_model(row: object) -> ListedModel | None:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not row["id"]:
        return None
    name: str = row["id"]
    if len(name) > MAX_NAME or not name.isprintable():
        return None
    if any(word in name.lower() for word in NOT_FOR_CHAT):
        return None
    label = row.get("name") or _shorten_path(name)
    takes = _read_words(row, ("architecture", "input_modalities"), ("input_modalities",))
    knows = _read_words(row, ("supported_parameters",), ("capabilities",))
    return ListedModel(
        name=name,
        label=_clean_label(label) if isinstance(label, str) and label != name else "",
        context_tokens=_read_number(
            row,
            ("context_length",),
            ("max_model_len",),
            # The size with which llama.cpp was started. `n_ctx_train` is that of the training.
            ("meta", "n_ctx"),
            ("context_window",),
        ),
        output_tokens=_read_number(
            row, ("top_provider", "max_completion_tokens"), ("max_output_tokens",)
        ),
        takes_pictures=None if takes is None else "image" in takes,
        takes_documents=None if takes is None else "file" in takes,
        reasons=None if knows is None else bool({"reasoning", "thinking"} & knows),
        takes_tools=_read_tools(row),
        price=_read_price(row),
    )


def _read_tools(row: dict[str, Any]) -> bool | None:
    """Return whether the model takes tools, from the parameters that OpenRouter lists."""
    takes = _read_words(row, ("supported_parameters",))
    return None if takes is None else "tools" in takes


def _read_price(row: dict[str, Any]) -> ListedPrice | None:
    """Return the price in the form of OpenRouter: dollars for one token, as text. A price that
    depends on the request is negative there and is left out."""
    prompt, completion = (
        _read_token_price(row, "prompt"),
        _read_token_price(row, "completion"),
    )
    if prompt is None or completion is None:
        return None
    return ListedPrice(
        input=prompt,
        output=completion,
        cached=_read_token_price(row, "input_cache_read"),
        cache_write=_read_token_price(row, "input_cache_write"),
    )


def _read_token_price(row: dict[str, Any], name: str) -> Decimal | None:
    said = _read_path(row, ("pricing", name))
    if not isinstance(said, str) or len(said) > MAX_LABEL:
        return None
    try:
        price = Decimal(said) * MILLION
    except ArithmeticError:
        return None
    if not price.is_finite() or not 0 <= price < MAX_PRICE:
        return None
    return abs(price.quantize(SMALLEST_PRICE))


def _clean_label(label: str) -> str:
    """Return the label without hidden characters, and not longer than a line."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in label).split())
    return shown if len(shown) <= MAX_LABEL else f"{shown[: MAX_LABEL - 1]}…"


def _shorten_path(name: str) -> str:
    """Return the name of a file of weights without its folder. llama.cpp may list the path."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.stem if path.suffix.lower() == ".gguf" else name


def _read_path(row: dict[str, Any], path: Iterable[str]) -> object:
    value: object = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _read_number(row: dict[str, Any], *paths: tuple[str, ...]) -> int | None:
    """Return the first of these fields that is a count."""
    values = (_read_path(row, path) for path in paths)
    counts = (v for v in values if isinstance(v, int) and not isinstance(v, bool))
    return next((count for count in counts if 1 <= count <= MAX_TOKENS), None)


def _read_words(row: dict[str, Any], *paths: tuple[str, ...]) -> set[str] | None:
    values = (_read_path(row, path) for path in paths)
    found = next((value for value in values if isinstance(value, list)), None)
    return None if found is None else {word for word in found if isinstance(word, str)}
