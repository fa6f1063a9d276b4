"""What a tool's input schema says: parameters for free code, and actions that it offers."""

from collections.abc import Iterator, Sequence

from .findings import Finding, found
from .name_evidence import effect_of
from .parameters import Parameter
from .vocabulary import EFFECTS, Effect, word_set
from .words import words_of

_ACTIONS = word_set("action actions method operation operations mode command subcommand op verb")
_ADDRESSES = word_set("url uri path endpoint route")
_FREE_CODE = {
    **dict.fromkeys(word_set("sql cypher statement statements"), "a free SQL statement"),
    **dict.fromkeys(word_set("command commands cmd shell bash"), "a free command"),
    **dict.fromkeys(word_set("script scripts javascript code"), "free code"),
}
# A tool that looks something up by such a word is told a name or a number, not a program.
_HARMLESS_TO_READERS = word_set("code command commands script scripts")


def judge_schema(
    parameters: Sequence[Parameter], name: str, effect: Effect | None
) -> list[Finding]:
    """All findings. `effect` is what the name says."""
    return [
        *_free_code(parameters, effect),
        *_actions(parameters, name),
        *_any_request(parameters),
        *_any_action(parameters, effect),
    ]


def _free_code(parameters: Sequence[Parameter], effect: Effect | None) -> Iterator[Finding]:
    for parameter in parameters:
        word = _code_word(parameter.words)
        is_harmless = effect == "reads" and word in _HARMLESS_TO_READERS
        if word and parameter.is_free_text and not is_harmless:
            yield Finding(level="high", reason=f"It takes {_FREE_CODE[word]}.")


def _code_word(words: Sequence[str]) -> str:
    """The word that promises free code: the last one, but a country's code is none."""
    if "sql" in words:
        return "sql"
    last = words[-1] if words else ""
    is_of_something = len(words) > 1 and last in {"code", "statement", "statements"}
    return "" if is_of_something or last not in _FREE_CODE else last


def _actions(parameters: Sequence[Parameter], name: str) -> Iterator[Finding]:
    """The gravest action on offer. A list with an unfamiliar one never counts as only reading."""
    effects = [
        effect_of(words_of(choice), (*words_of(choice), *words_of(name)))
        for parameter in parameters
        if parameter.words and parameter.words[-1] in _ACTIONS
        for choice in parameter.choices
    ]
    known = [effect for effect in effects if effect is not None]
    gravest = max(known, key=EFFECTS.index, default=None)
    if gravest is not None and (gravest != "reads" or len(known) == len(effects)):
        yield found(gravest, source="The list of its actions")


def _any_request(parameters: Sequence[Parameter]) -> Iterator[Finding]:
    """A method and an address that may be anything: the tool is whatever the call makes of it."""
    lone = {parameter.words: parameter for parameter in parameters if len(parameter.words) == 1}
    method = lone.get(("method",))
    offers_deletion = method is not None and (
        method.is_free_text or any(choice.lower() == "delete" for choice in method.choices)
    )
    if offers_deletion and any((word,) in lone for word in _ADDRESSES):
        yield Finding(level="high", reason="It can send any request to an address.")


def _any_action(parameters: Sequence[Parameter], effect: Effect | None) -> Iterator[Finding]:
    """An action without a list of the possible ones, in a tool that does not say that it reads."""
    for parameter in parameters:
        if parameter.words == ("action",) and parameter.is_free_text and effect != "reads":
            yield Finding(level="high", reason="It takes any action by name.")
