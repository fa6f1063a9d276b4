"""What a tool's name, input schema and description say about its risk. Each finding is a piece of
evidence for a level, with a reason in a member's words.

Name: the first verb decides, and nouns raise or lower its effect. Schema: parameters at any
depth, and the risks of free code and of actions on offer. Description: the service wrote it, so
it may raise a risk and never lower one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from chatapp.permissions.risk_vocabulary import (
    ACCESS_NOUNS,
    AMBIGUOUS,
    CODE_NOUNS,
    COMPUTED,
    CONNECTORS,
    EFFECTS,
    FOREIGN_STEMS,
    FOREIGN_VERBS,
    LIGHT_MADE,
    LIGHT_REMOVED,
    LOOKED_UP,
    MONEY_NOUNS,
    NOUN_LIKE_ENDINGS,
    NOUN_LIKE_READERS,
    OBSERVATIONS,
    OPERATIONS_NOUNS,
    REPORTS,
    SOCIAL_VERBS,
    SOFT_OPERATIONS,
    UNMISTAKABLE,
    VERBS,
    WHOLE_THINGS,
    Effect,
    word_set,
)
from chatapp.permissions.word_splitting import split_words

Level = Literal["low", "medium", "high"]
LEVELS: tuple[Level, ...] = get_args(Level)  # from the mildest to the gravest


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    reason: str


_LEVEL_OF_EFFECT: dict[Effect, Level] = {
    "reads": "low",
    "changes": "medium",
    "sends": "medium",
    "controls": "medium",
    "removes": "high",
    "creates": "high",
    "operates": "high",
    "deletes": "high",
    "runs": "high",
    "access": "high",
    "money": "high",
}
PHRASES: dict[Effect, str] = {
    "reads": "only reads",
    "changes": "changes something",
    "sends": "sends something to others",
    "controls": "starts or stops something",
    "removes": "removes something",
    "creates": "creates something",
    "operates": "acts on something that is in use",
    "deletes": "deletes",
    "runs": "runs or restarts something",
    "access": "changes what people may do",
    "money": "moves money",
}


def make_finding(effect: Effect, *, source: str) -> Finding:
    """Return the finding for an effect. `source` is the subject of the reason: "Its name", "Its
    description"."""
    return Finding(
        level=_LEVEL_OF_EFFECT[effect], reason=f"{source} says that it {PHRASES[effect]}."
    )


FoundVerbs = Sequence[tuple[str, Effect]]

_OPERATING = word_set("apply merge manage restore complete connect update modify configure")
_RESTORING = frozenset({"restore", "merge"})
_ASKING = frozenset({"execute", "run"})
_MAKING = frozenset({"add", "post"})
_PLACES = frozenset({"to", "into", "on", "in"})
_CHANGING: frozenset[Effect] = frozenset({"changes", "controls", "removes"})


def detect_name_effect(name: str) -> Effect | None:
    """Return the gravest effect that a name states; None if no word in it is known."""
    words = split_words(name)
    effects = [
        effect for part in _split_phrases(words) if (effect := detect_phrase_effect(part, words))
    ]
    return max(effects, key=EFFECTS.index, default=None)


def detect_phrase_effect(words: Sequence[str], context: Sequence[str]) -> Effect | None:
    """Return the effect of one phrase, judged with the nouns of the whole name."""
    spoken = _find_verb(words)
    if spoken is None:
        return None
    verb, effect = spoken
    nouns = frozenset(context) - {verb}
    if verb == "query" and nouns & CODE_NOUNS:
        return "runs"
    if verb == "write" and nouns & (CODE_NOUNS | {"query"}):
        return "runs"
    if effect == "reads" or _only_reads(verb, nouns):
        return "reads"
    return _weigh_nouns(verb, effect, nouns, words[-1])


def _only_reads(verb: str, nouns: frozenset[str]) -> bool:
    """Return whether a verb that usually changes things only reads these nouns."""
    if verb in _ASKING and nouns & OBSERVATIONS and not nouns & CODE_NOUNS:
        return True
    return bool(nouns & {"resolve": LOOKED_UP, "convert": COMPUTED}.get(verb, frozenset()))


def _weigh_nouns(verb: str, effect: Effect, nouns: frozenset[str], last: str) -> Effect:
    """Return the effect of a verb on these nouns."""
    if verb in _MAKING and last in WHOLE_THINGS and not nouns & _PLACES:
        effect = "creates"
    if effect == "creates" and nouns & LIGHT_MADE:
        return "sends"
    if effect in _CHANGING and verb not in SOCIAL_VERBS and nouns & ACCESS_NOUNS:
        return "access"
    if effect in _CHANGING and nouns & MONEY_NOUNS:
        return "money"
    if effect == "removes" and (nouns & LIGHT_REMOVED or "from" in nouns):
        return "changes"
    in_use = nouns & OPERATIONS_NOUNS
    if effect == "controls" or verb in _RESTORING:
        in_use |= nouns & SOFT_OPERATIONS
    is_operated = effect == "controls" or verb in _OPERATING
    return "operates" if is_operated and in_use else effect


def _find_verb(words: Sequence[str]) -> tuple[str, Effect] | None:
    spoken = [(word, effect) for word in words if (effect := _look_up_verb(word))]
    return _choose_leading_verb(spoken, words) if spoken else _find_effect_without_verb(words)


def _choose_leading_verb(spoken: FoundVerbs, words: Sequence[str]) -> tuple[str, Effect]:
    """Return the first verb, unless it reads and a later word is clearly a verb with another
    effect."""
    verb, effect = spoken[0]
    if effect != "reads":
        return verb, effect
    for later, does in spoken[1:]:
        is_last_word = verb in NOUN_LIKE_READERS and later == words[-1]
        is_said = is_last_word and does != "reads" and later not in NOUN_LIKE_ENDINGS
        if later in UNMISTAKABLE or is_said:
            return later, does
    return verb, effect


def _look_up_verb(word: str) -> Effect | None:
    return VERBS.get(word) or FOREIGN_VERBS.get(word) or _find_stem_effect(word)


def _find_effect_without_verb(words: Sequence[str]) -> tuple[str, Effect] | None:
    if words and words[-1] in REPORTS:
        return words[-1], "reads"
    for word in words:
        if effect := AMBIGUOUS.get(word):
            return word, effect
    return next(((word, "reads") for word in words if word in REPORTS), None)


def _find_stem_effect(word: str) -> Effect | None:
    """Return the gravest effect of the stems in a word of a script without spaces."""
    if word.isascii():
        return None
    held = [effect for stem, effect in FOREIGN_STEMS.items() if stem in word]
    return max(held, key=EFFECTS.index, default=None)


def _split_phrases(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in CONNECTORS:
            yield part
            part = []
        else:
            part.append(word)
    yield part


_MAX_DEPTH = 32
_MAX_SCHEMAS = 5_000
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")

Schema = Mapping[str, Any]


class UnreadableSchema(ValueError):
    """The input is not a schema, refers to another document, or is too deep or too large to be
    judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`choices` are the strings to which it is limited; `is_free_text`: it accepts any string as
    well."""

    words: tuple[str, ...]
    choices: tuple[str, ...]
    is_free_text: bool


def read_parameters(schema: object) -> tuple[Parameter, ...]:
    if not isinstance(schema, Mapping):
        raise UnreadableSchema("The schema is not an object.")
    return tuple(_Reader(root=schema).read(schema, depth=0))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """One walk through one schema. Each definition is entered once, so recursive schemas end."""

    root: Schema
    entered: set[str] = field(default_factory=set)
    count: int = 0

    def read(self, schema: object, depth: int) -> Iterator[Parameter]:
        self._spend(depth)
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            raise UnreadableSchema("A part of the schema is not an object.")
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            raise UnreadableSchema("The properties are not an object.")
        for name, part in properties.items():
            yield self._parameter(str(name), part, depth)
            yield from self.read(part, depth + 1)
        for part in self._inner(schema):
            yield from self.read(part, depth + 1)

    def _spend(self, depth: int) -> None:
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_SCHEMAS:
            raise UnreadableSchema("The schema is too deep or too large.")

    def _inner(self, schema: Schema) -> Iterator[object]:
        for key in _ALTERNATIVES:
            yield from _as_list(schema.get(key, []))
        if "items" in schema:
            yield from _as_list(schema["items"], is_one_allowed=True)
        reference = schema.get("$ref")
        if reference is not None and reference not in self.entered:
            self.entered.add(reference)
            yield self._resolve(reference)

    def _resolve(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnreadableSchema("The schema refers to another document.")
        target: Any = self.root
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target:
                raise UnreadableSchema("The schema refers to a part that it does not have.")
            target = target[key]
        return target

    def _parameter(self, name: str, schema: object, depth: int) -> Parameter:
        forms = tuple(self._forms(schema, depth))
        return Parameter(
            words=split_words(name),
            choices=tuple(text for form in forms for text in _read_choices(form)),
            is_free_text=any(_takes_any_text(form) for form in forms),
        )

    def _forms(self, schema: object, depth: int) -> Iterator[Schema]:
        """Yield the alternatives of a parameter, including those of a list's items."""
        self._spend(depth)
        if isinstance(schema, bool):
            schema = {}
        if not isinstance(schema, Mapping):
            raise UnreadableSchema("A part of the schema is not an object.")
        inner = [part for key in _ALTERNATIVES for part in _as_list(schema.get(key, []))]
        if "$ref" in schema:
            inner.append(self._resolve(schema["$ref"]))
        if "items" in schema:
            inner.extend(_as_list(schema["items"], is_one_allowed=True))
        if not inner:
            yield schema
        for part in inner:
            yield from self._forms(part, depth + 1)


def _as_list(value: object, *, is_one_allowed: bool = False) -> list[object]:
    if isinstance(value, list):
        return value
    if is_one_allowed:
        return [value]
    raise UnreadableSchema("The alternatives are not a list.")


def _read_choices(form: Schema) -> list[str]:
    named = [*_as_list(form.get("enum", [])), form.get("const")]
    return [value for value in named if isinstance(value, str)]


def _takes_any_text(form: Schema) -> bool:
    if "enum" in form or "const" in form:
        return False
    kind = form.get("type", "string")
    return "string" in kind if isinstance(kind, list) else kind in {"string", "array"}


_ACTIONS = word_set("action actions method operation operations mode command subcommand op verb")
_ADDRESSES = word_set("url uri path endpoint route")
_FREE_CODE = {
    **dict.fromkeys(word_set("sql cypher statement statements"), "a free SQL statement"),
    **dict.fromkeys(word_set("command commands cmd shell bash"), "a free command"),
    **dict.fromkeys(word_set("script scripts javascript code"), "free code"),
}
# For a tool that reads, a parameter of this name is an identifier and not a program.
_HARMLESS_TO_READERS = word_set("code command commands script scripts")


def judge_schema(
    parameters: Sequence[Parameter], name: str, effect: Effect | None
) -> list[Finding]:
    """Return all findings. `effect` is the effect that the name states."""
    return [
        *_find_free_code(parameters, effect),
        *_find_actions(parameters, name),
        *_find_any_request(parameters),
        *_find_any_action(parameters, effect),
    ]


def _find_free_code(parameters: Sequence[Parameter], effect: Effect | None) -> Iterator[Finding]:
    for parameter in parameters:
        word = _find_code_word(parameter.words)
        is_harmless = effect == "reads" and word in _HARMLESS_TO_READERS
        if word and parameter.is_free_text and not is_harmless:
            yield Finding(level="high", reason=f"It takes {_FREE_CODE[word]}.")


def _find_code_word(words: Sequence[str]) -> str:
    """Return the word that stands for free code: the last word. A phrase such as "country code"
    does not count."""
    if "sql" in words:
        return "sql"
    last = words[-1] if words else ""
    is_of_something = len(words) > 1 and last in {"code", "statement", "statements"}
    return "" if is_of_something or last not in _FREE_CODE else last


def _find_actions(parameters: Sequence[Parameter], name: str) -> Iterator[Finding]:
    """Yield the gravest action on offer. A list with an unknown action never counts as
    read-only."""
    effects = [
        detect_phrase_effect(split_words(choice), (*split_words(choice), *split_words(name)))
        for parameter in parameters
        if parameter.words and parameter.words[-1] in _ACTIONS
        for choice in parameter.choices
    ]
    known = [effect for effect in effects if effect is not None]
    gravest = max(known, key=EFFECTS.index, default=None)
    if gravest is not None and (gravest != "reads" or len(known) == len(effects)):
        yield make_finding(gravest, source="The list of its actions")


def _find_any_request(parameters: Sequence[Parameter]) -> Iterator[Finding]:
    """Yield a finding for a free method and address: such a tool can send any request."""
    lone = {parameter.words: parameter for parameter in parameters if len(parameter.words) == 1}
    method = lone.get(("method",))
    offers_deletion = method is not None and (
        method.is_free_text or any(choice.lower() == "delete" for choice in method.choices)
    )
    if offers_deletion and any((word,) in lone for word in _ADDRESSES):
        yield Finding(level="high", reason="It can send any request to an address.")


def _find_any_action(parameters: Sequence[Parameter], effect: Effect | None) -> Iterator[Finding]:
    """Yield a finding for a free action without a list of choices, unless the tool's name says
    that it reads."""
    for parameter in parameters:
        if parameter.words == ("action",) and parameter.is_free_text and effect != "reads":
            yield Finding(level="high", reason="It takes any action by name.")


_READ_CHARACTERS = 4_000
_GRAVE: frozenset[Effect] = frozenset({"deletes", "runs", "access", "money"})
_FILLERS = word_set("""
    this the a an tool function endpoint api to use used it will can be you permanently safely
    bulk irreversibly allows lets for
    """)
# Nouns of things that are run to learn something. "query" is not among them: a query may be in any
# language.
_QUESTIONS = OBSERVATIONS | word_set("search research report check audit scan diagnostics analysis")
_NEAR = 6
_WARNINGS = (
    "cannot be undone",
    "can not be undone",
    "can t be undone",
    "irreversible",
    "irreversibly",
    "arbitrary code",
    "arbitrary command",
    "arbitrary sql",
    "arbitrary javascript",
    "arbitrary python",
    "any sql",
    "shell command",
    "permanently delete",
    "permanently remove",
)


def judge_description(description: str) -> Iterator[Finding]:
    words = split_words(description[:_READ_CHARACTERS])
    text = " ".join(words)
    if any(warning in text for warning in _WARNINGS):
        yield Finding(level="high", reason="Its description warns of what it can do.")
    place = next((n for n, word in enumerate(words) if word not in _FILLERS), 0)
    first = "".join(words[place : place + 1])
    effect = VERBS.get(first) or VERBS.get(first.removesuffix("s"))
    is_question = effect == "runs" and not _QUESTIONS.isdisjoint(words[place : place + _NEAR])
    if effect in _GRAVE and not is_question:
        yield make_finding(effect, source="Its description")
