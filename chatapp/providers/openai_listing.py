"""What servers answer when they are asked for their models. OpenAI says names only; others add, in
fields of their own, what a model can do."""

from collections.abc import Iterable
from typing import Any

from chatapp.providers.account import ListedModel

# OpenAI lists everything that it has under one address.
NOT_FOR_CHAT = (
    *("embed", "whisper", "tts-", "-tts", "dall-e", "moderation", "transcribe", "realtime"),
    *("-image", "sora", "davinci-002", "babbage-002", "rerank", "gpt-audio", "-audio-"),
)


def models_in(answer: object) -> tuple[ListedModel, ...] | None:
    """The models of an answer, by name; None where it is no list of models."""
    rows = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        return None
    found = {model.name: model for row in rows if (model := _model(row)) is not None}
    return tuple(found[name] for name in sorted(found))


def _model(row: object) -> ListedModel | None:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not row["id"]:
        return None
    name: str = row["id"]
    if any(word in name.lower() for word in NOT_FOR_CHAT):
        return None
    label = row.get("name")
    takes = _words(row, ("architecture", "input_modalities"), ("input_modalities",))
    knows = _words(row, ("supported_parameters",), ("capabilities",))
    return ListedModel(
        name=name,
        label=label if isinstance(label, str) and label != name else "",
        context_tokens=_number(
            row,
            ("context_length",),
            ("max_model_len",),
            # What llama.cpp was started with; `n_ctx_train` is what the model was trained for.
            ("meta", "n_ctx"),
            ("context_window",),
        ),
        output_tokens=_number(
            row, ("top_provider", "max_completion_tokens"), ("max_output_tokens",)
        ),
        takes_pictures=None if takes is None else "image" in takes,
        takes_documents=None if takes is None else "file" in takes,
        reasons=None if knows is None else bool({"reasoning", "thinking"} & knows),
    )


def _at(row: dict[str, Any], path: Iterable[str]) -> object:
    value: object = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(row: dict[str, Any], *paths: tuple[str, ...]) -> int | None:
    """The first of these places that holds a count."""
    values = (_at(row, path) for path in paths)
    return next(
        (v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), None
    )


def _words(row: dict[str, Any], *paths: tuple[str, ...]) -> set[str] | None:
    values = (_at(row, path) for path in paths)
    found = next((value for value in values if isinstance(value, list)), None)
    return None if found is None else {word for word in found if isinstance(word, str)}
