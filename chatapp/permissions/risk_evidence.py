"""What a tool's name and input schema say about its risk. Each finding is a piece of evidence for a
level, with a reason in a member's words.

Name: the first verb decides unless a graver one is hidden behind it, and nouns raise or lower its
effect. Schema: parameters at any depth, and the risks of free code, of actions on offer and of
switches.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args
from urllib.parse import unquote

from chatapp.permissions import reasons
from chatapp.permissions.risk_vocabulary import (
    ACCESS_NOUNS,
    AMBIGUOUS,
    CHANGING_SWITCHES,
    CODE_NOUNS,
    COMPUTED,
    CONNECTORS,
    DELETING_SWITCHES,
    EDITING_VERBS,
    EFFECTS,
    ENDING_READERS,
    ENDING_REPORTS,
    FOREIGN_STEMS,
    FOREIGN_VERBS,
    ISSUED,
    LIGHT_MADE,
    LIGHT_REMOVED,
    LOOKED_UP,
    MONEY_NOUNS,
    MONEY_RECORDS,
    NAMING_READERS,
    NOT_VERBS,
    NOUN_LIKE_ACTIONS,
    NOUN_LIKE_ENDINGS,
    NOUN_LIKE_PARTS,
    NOUN_LIKE_READERS,
    NOUN_TAILS,
    OBSERVATIONS,
    OPERATIONS_NOUNS,
    QUESTION_WORDS,
    REPORT_STEMS,
    REPORTS,
    SOCIAL_VERBS,
    SOFT_OPERATIONS,
    SWITCH_OPENERS,
    UNMISTAKABLE,
    VERBS,
    VERBS_BEFORE_OBJECTS,
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


def make_finding(effect: Effect, *, source: Mapping[Effect, str]) -> Finding:
    """Return the finding for an effect. `source` has the sentences of where it was found."""
    return Finding(level=_LEVEL_OF_EFFECT[effect], reason=source[effect])


FoundVerbs = Sequence[tuple[str, Effect]]

_OPERATING = word_set("""
    apply merge manage restore complete connect update modify configure format
    submit dispatch launch approve retry requeue
    """)
_HANDING_OVER = frozenset({"send", "submit", "dispatch"})
_RESTORING = frozenset({"restore", "merge"})
_ASKING = frozenset({"execute", "exec", "run", "query"})
_MAKING = frozenset({"add", "post", "make", "register", "schedule", "insert"})
_PLACES = frozenset({"to", "into", "on", "in"})
_GRAVE_NOUNS = ACCESS_NOUNS | OPERATIONS_NOUNS | MONEY_NOUNS | MONEY_RECORDS
_KNOWN_NOUNS = _GRAVE_NOUNS | NOT_VERBS
_NOT_OBJECTS = REPORTS | NOUN_TAILS
_QUOTED = frozenset({"price", "prices"})  # A name without a verb that ends so asks for a price.
_READING_ENDINGS = ENDING_READERS | ENDING_REPORTS
_RECORDS_SETTLED = MONEY_NOUNS | MONEY_RECORDS
_CHANGING: frozenset[Effect] = frozenset({"changes", "controls", "removes"})


def detect_name_effect(name: str) -> Effect | None:
    """Return the gravest effect that a name states; None if no word in it is known."""
    words = split_words(name)
    effects = [
        effect for part in _split_phrases(words) if (effect := detect_phrase_effect(part, words))
    ]
    return max(effects, key=EFFECTS.index, default=None)


def find_unknown_parts(name: str, effect: Effect | None) -> Iterator[Finding]:
    """Yield a finding for each part of a name that may hide an action. `effect` is the effect that
    the name states."""
    words = split_words(name)
    foreign = [word for word in words if not word.isascii()]
    if foreign and not any(map(look_up_verb, foreign)):
        yield Finding(level="medium", reason=reasons.NAME_IN_UNKNOWN_SCRIPT)
    if _has_unknown_second_action(words):
        yield Finding(level="medium", reason=reasons.NAME_HOLDS_SECOND_ACTION)
    if effect == "reads" and _states_read_only(words) and not CODE_NOUNS.isdisjoint(words):
        yield _ONLY_READS_AS_STATED
    if effect is None and _acts_on_grave_object(words):
        yield Finding(level="high", reason=reasons.NAME_MENTIONS_GRAVE_OBJECT)


def _has_unknown_second_action(words: Sequence[str]) -> bool:
    """Return whether an unknown word must be a verb: "list_and_frob", "get_notes_then_frob"."""
    return any(
        bool(part) and detect_phrase_effect(part, words) is None
        for before, part in pairwise(_split_phrases(words))
        if "then" in words or (len(before) == 1 and look_up_verb(before[0]))
    )


def _states_read_only(words: Sequence[str]) -> bool:
    """Return whether a name states that its SQL cannot write: `execute_readonly_sql`."""
    is_stated = "readonly" in words or ("read", "only") in pairwise(words)
    return is_stated or (bool(_ASKING.intersection(words)) and "select" in words)


_ONLY_READS_AS_STATED = Finding(level="medium", reason=reasons.SERVICE_SAYS_SQL_READS)


def _acts_on_grave_object(words: Sequence[str]) -> bool:
    if len(words) < 2 or words[-1] not in _GRAVE_NOUNS - _QUOTED:
        return False
    return words[0] not in _KNOWN_NOUNS and not words[0].endswith("s")


def detect_phrase_effect(words: Sequence[str], context: Sequence[str]) -> Effect | None:
    """Return the effect of one phrase, judged with the nouns of the whole name."""
    spoken = _find_verb(words)
    if spoken is None:
        return None
    verb, effect = spoken
    nouns = frozenset(context) - {verb}
    if verb in _ASKING and _states_read_only(context):
        return "reads"
    if verb == "query" and nouns & CODE_NOUNS:
        return "runs"
    if verb == "write" and nouns & (CODE_NOUNS | {"query"}):
        return "runs"
    if verb == "generate" and words[-1] in ISSUED:
        return "access"
    if effect == "reads" or _only_reads(verb, nouns):
        return "reads"
    return _weigh_nouns(verb, effect, nouns, words[-1])


def _only_reads(verb: str, nouns: frozenset[str]) -> bool:
    """Return whether a verb that usually changes things only reads these nouns."""
    if verb != "query" and verb in _ASKING and nouns & OBSERVATIONS and not nouns & CODE_NOUNS:
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
    settled = MONEY_NOUNS if verb in EDITING_VERBS else _RECORDS_SETTLED
    if effect in _CHANGING and nouns & settled:
        return "money"
    if verb in _HANDING_OVER and last in settled and last not in {"invoice", "invoices"}:
        return "money"
    if effect == "removes" and (nouns & LIGHT_REMOVED or "from" in nouns):
        return "changes"
    in_use = nouns & OPERATIONS_NOUNS
    if effect == "controls" or verb in _RESTORING:
        in_use |= nouns & SOFT_OPERATIONS
    is_operated = effect == "controls" or verb in _OPERATING
    return "operates" if is_operated and in_use else effect


_READING_STEMS = tuple(stem for stem, effect in FOREIGN_STEMS.items() if effect == "reads")
# What was done already, or is not done: "the deleted", "does not delete".
_DONE = re.compile(r"[已被未不]\w\w|\w\w(?:された|済み|しない|된|的)")


def _find_verb(words: Sequence[str]) -> tuple[str, Effect] | None:
    spoken = [(word, effect) for word in words if (effect := look_up_verb(word))]
    return _choose_leading_verb(spoken, words) if spoken else _find_effect_without_verb(words)


def _choose_leading_verb(spoken: FoundVerbs, words: Sequence[str]) -> tuple[str, Effect]:
    """Return the first verb, unless it reads and a later word is clearly a verb with another
    effect, or it is a noun and the last word says that the name reads."""
    verb, effect = spoken[0]
    if effect != "reads":
        return (words[-1], "reads") if _is_noun_of_reader(spoken, words) else (verb, effect)
    for later, does in spoken[1:]:
        is_last_word = verb in NOUN_LIKE_READERS and later == words[-1]
        is_said = is_last_word and does != "reads" and later not in NOUN_LIKE_ENDINGS
        is_act = _has_object(verb, later, words) or _has_grave_object(verb, later, words)
        if is_said or _is_always_a_verb(later) or (does != "reads" and is_act):
            return later, does
    return verb, effect


def _is_noun_of_reader(spoken: FoundVerbs, words: Sequence[str]) -> bool:
    """Return whether the leading verb is a noun, as in `deploy_logs_get`."""
    verbs = {verb for verb, _ in spoken}
    is_read = len(words) > 1 and words[-1] in _READING_ENDINGS
    return is_read and spoken[0][0] in NOUN_LIKE_ACTIONS and not any(map(_is_always_a_verb, verbs))


def _is_always_a_verb(word: str) -> bool:
    return word in UNMISTAKABLE or FOREIGN_VERBS.get(word) == "deletes"


def _has_object(reader: str, verb: str, words: Sequence[str]) -> bool:
    """Return whether a verb after a reading verb acts on the words after it."""
    if verb not in VERBS_BEFORE_OBJECTS or words[-1] in _NOT_OBJECTS:
        return False
    after = words[words.index(verb) + 1 :]
    is_list_of_things = reader in {"list", "count"} and words[-1].endswith("s")
    return bool(after) and after[0] not in _NOT_OBJECTS and not is_list_of_things


def _has_grave_object(reader: str, verb: str, words: Sequence[str]) -> bool:
    """Return whether the words end in what a verb after a reading verb would do harm to:
    `verify_start_vm`. `get_sync_jobs` asks for jobs."""
    if verb in NOUN_LIKE_PARTS or words[-1] == verb or words[-1] not in _GRAVE_NOUNS:
        return False
    if reader in NAMING_READERS:
        return verb not in NOUN_LIKE_ACTIONS and not words[-1].endswith("s")
    return True


def look_up_verb(word: str) -> Effect | None:
    return VERBS.get(word) or FOREIGN_VERBS.get(word) or _find_stem_effect(word)


def _find_effect_without_verb(words: Sequence[str]) -> tuple[str, Effect] | None:
    if words and words[-1] in REPORTS:
        return words[-1], "reads"
    if words and words[0] in QUESTION_WORDS:
        return words[0], "reads"
    for word in words:
        if effect := AMBIGUOUS.get(word):
            return word, effect
    return next(((word, "reads") for word in words if word in REPORTS), None)


def _find_stem_effect(word: str) -> Effect | None:
    """Return the gravest effect of the stems in a word of a script without spaces."""
    if word.isascii():
        return None
    if word.startswith(_READING_STEMS) and word.endswith(REPORT_STEMS):
        return "reads"
    stated = _DONE.sub("", word)
    held = [effect for stem, effect in FOREIGN_STEMS.items() if stem in stated]
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
# Other keywords whose value is a schema, one schema or a list, or a table of schemas.
_SINGLE = ("if", "then", "else", "additionalProperties", "unevaluatedProperties", "contains")
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems")
_BY_NAME = ("dependentSchemas",)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_INNER_KEYWORDS = frozenset(
    {
        *_ALTERNATIVES,
        *_SINGLE,
        *_OF_ITEMS,
        *_BY_NAME,
        *_REFERENCES,
        *("properties", "patternProperties", "propertyNames", "required"),
    }
)
_ANCHORS = ("$anchor", "$dynamicAnchor")

Schema = Mapping[str, Any]


class UnreadableSchema(ValueError):
    """The input is not a schema, refers to another document, or is too deep or too large to be
    judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`choices` are the strings to which it is limited; `is_free_text`: it accepts any string as
    well; `formats` are those that the schema states for it."""

    words: tuple[str, ...]
    choices: tuple[str, ...]
    is_free_text: bool
    name: str = ""
    formats: frozenset[str] = frozenset()


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
        if schema.keys().isdisjoint(_INNER_KEYWORDS):
            return
        for key in ("properties", "patternProperties"):
            parts = schema.get(key, {})
            if not isinstance(parts, Mapping):
                raise UnreadableSchema("The properties are not an object.")
            for name, part in parts.items():
                yield self._parameter(str(name), part, depth)
                yield from self.read(part, depth + 1)
        for name in _list_names_without_schema(schema):
            yield self._parameter(name, True, depth)
        for part in self._inner(schema):
            yield from self.read(part, depth + 1)

    def _spend(self, depth: int) -> None:
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_SCHEMAS:
            raise UnreadableSchema("The schema is too deep or too large.")

    def _inner(self, schema: Schema) -> Iterator[object]:
        yield from _list_parts(schema, (*_ALTERNATIVES, *_OF_ITEMS, *_SINGLE))
        for key in _BY_NAME:
            parts = schema.get(key)
            yield from parts.values() if isinstance(parts, Mapping) else ()
        for key in _REFERENCES:
            reference = schema.get(key)
            if reference is not None and str(reference) not in self.entered:
                self.entered.add(str(reference))
                yield self._resolve(reference)

    def _resolve(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UnreadableSchema("The schema refers to another document.")
        first, *steps = unquote(reference[1:]).split("/")
        target: Any = self._find_anchor(first) if first else self.root
        for step in steps:
            target = _enter(target, step.replace("~1", "/").replace("~0", "~"))
        return target

    def _find_anchor(self, name: str) -> object:
        waiting: list[object] = [self.root]
        while waiting:
            self._spend(depth=0)
            part = waiting.pop()
            if isinstance(part, Mapping):
                if any(part.get(key) == name for key in _ANCHORS):
                    return part
                waiting.extend(part.values())
            elif isinstance(part, list):
                waiting.extend(part)
        raise UnreadableSchema("The schema refers to a part that it does not have.")

    def _parameter(self, name: str, schema: object, depth: int) -> Parameter:
        forms = tuple(self._forms(schema, depth))
        return Parameter(
            words=split_words(name),
            choices=tuple(text for form in forms for text in _read_choices(form)),
            is_free_text=any(_takes_any_text(form) for form in forms),
            name=name,
            formats=frozenset(
                named.lower() for form in forms if isinstance(named := form.get("format"), str)
            ),
        )

    def _forms(self, schema: object, depth: int) -> Iterator[Schema]:
        """Yield the alternatives of a parameter, including those of a list's items."""
        self._spend(depth)
        if isinstance(schema, bool):
            schema = {}
        if not isinstance(schema, Mapping):
            raise UnreadableSchema("A part of the schema is not an object.")
        if schema.keys().isdisjoint(_INNER_KEYWORDS):
            yield schema
            return
        inner = _list_parts(schema, (*_ALTERNATIVES, *_OF_ITEMS))
        inner.extend(self._resolve(schema[key]) for key in _REFERENCES if key in schema)
        if not inner:
            yield schema
        # `true` and `{}` only say that more values are tolerated.
        parts = _list_parts(schema, _SINGLE)
        inner.extend(part for part in parts if isinstance(part, Mapping) and part)
        if isinstance(patterns := schema.get("patternProperties"), Mapping):
            inner.extend(patterns.values())
        for part in inner:
            yield from self._forms(part, depth + 1)


def _list_parts(schema: Schema, keys: Sequence[str]) -> list[object]:
    """Return the schemas under these keywords."""
    return [
        part
        for key in keys
        if key in schema
        for part in _as_list(schema[key], is_one_allowed=key not in _ALTERNATIVES)
    ]


def _enter(target: object, step: str) -> object:
    if isinstance(target, Mapping) and step in target:
        return target[step]
    if isinstance(target, list) and step.isdecimal() and int(step) < len(target):
        return target[int(step)]
    raise UnreadableSchema("The schema refers to a part that it does not have.")


def _list_names_without_schema(schema: Schema) -> list[str]:
    """Return the names of values that the schema mentions without describing them."""
    names = schema.get("propertyNames")
    allowed = _read_choices(names) if isinstance(names, Mapping) else []
    required = schema.get("required")
    if isinstance(required, list):
        allowed += [name for name in required if isinstance(name, str)]
    return [name for name in dict.fromkeys(allowed) if name not in schema.get("properties", {})]


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
    if isinstance(kind, list):
        return "string" in kind
    # What is no type excludes nothing.
    return not isinstance(kind, str) or kind in {"string", "array"}


_ACTIONS = word_set("action actions method operation operations mode command subcommand op verb")
_AFTERWARDS = frozenset({"on", "after"})
_METHODS = word_set("http request req method verb")
_ADDRESSES = word_set("url uri href path endpoint route")
_FREE_CODE = {
    **dict.fromkeys(word_set("sql tsql plsql cypher statement statements"), reasons.TAKES_SQL),
    **dict.fromkeys(
        word_set("command commands cmd cmdline shell bash zsh sh powershell"), reasons.TAKES_COMMAND
    ),
    **dict.fromkeys(
        word_set("script scripts javascript code python lua perl groovy"), reasons.TAKES_CODE
    ),
}
_ORIGINALS = word_set("""
    source sources original originals existing file files after matches match matched missing all
    records entries table tables database
    """)
# `delete_marker` and `delete_time` tell of a deletion.
_RECORDED = word_set("marker markers time date at by status flag event events key token")
# For a tool that reads, a parameter of this name is an identifier and not a program.
_HARMLESS_TO_READERS = word_set("code command commands script scripts python lua perl groovy")
# "sql" before one of these is still SQL; before another word it names a thing: `sql_instance`.
_TEXTS = word_set("statement statements query queries text string code command script body")


def judge_schema(
    parameters: Sequence[Parameter], name: str, effect: Effect | None
) -> list[Finding]:
    """Return all findings. `effect` is the effect that the name states."""
    return [
        *_find_free_code(parameters, name, effect),
        *_find_actions(parameters, name),
        *_find_any_request(parameters),
        *_find_switches(parameters),
        *_find_any_action(parameters, effect),
    ]


def _find_free_code(
    parameters: Sequence[Parameter], name: str, effect: Effect | None
) -> Iterator[Finding]:
    for parameter in parameters:
        word = _find_code_word(parameter.words)
        is_harmless = effect == "reads" and word in _HARMLESS_TO_READERS
        if not word or not parameter.is_free_text or is_harmless:
            continue
        if word == "sql" and effect == "reads" and _claims_read_only(name):
            yield _ONLY_READS_AS_STATED
        else:
            yield Finding(level="high", reason=_FREE_CODE[word])


def _claims_read_only(name: str) -> bool:
    words = split_words(name)
    return _states_read_only(words) or (
        not OBSERVATIONS.isdisjoint(words) and CODE_NOUNS.isdisjoint(words)
    )


def _find_code_word(words: Sequence[str]) -> str:
    """Return the word that stands for free code: the last word. A phrase such as "country code"
    does not count."""
    last = words[-1] if words else ""
    if "sql" in words and (last == "sql" or last in _TEXTS):
        return "sql"
    is_of_something = len(words) > 1 and last in {"code", "statement", "statements"}
    return "" if is_of_something or last not in _FREE_CODE else last


def _find_actions(parameters: Sequence[Parameter], name: str) -> Iterator[Finding]:
    """Yield the gravest action on offer. A list with an unknown action never counts as
    read-only."""
    effects = [
        detect_phrase_effect(split_words(choice), (*split_words(choice), *split_words(name)))
        for parameter in parameters
        if _names_an_action(parameter.words)
        for choice in parameter.choices
    ]
    known = [effect for effect in effects if effect is not None]
    gravest = max(known, key=EFFECTS.index, default=None)
    if gravest is not None and (gravest != "reads" or len(known) == len(effects)):
        yield make_finding(gravest, source=reasons.ACTIONS_SAY)


def _names_an_action(words: Sequence[str]) -> bool:
    """Return whether the values of a parameter are actions: `action`, `on_match`."""
    is_afterwards = len(words) > 1 and words[0] in _AFTERWARDS
    return bool(words) and (words[-1] in _ACTIONS or is_afterwards)


def _find_any_request(parameters: Sequence[Parameter]) -> Iterator[Finding]:
    """Yield a finding for a free method and address: such a tool can send any request."""
    takes_method = any(
        _METHODS.issuperset(parameter.words)
        and {"method", "verb"} & set(parameter.words)
        and (parameter.is_free_text or _offers_changing_method(parameter.choices))
        for parameter in parameters
        if parameter.words
    )
    if takes_method and any(_is_address(parameter.words) for parameter in parameters):
        yield Finding(level="high", reason=reasons.SENDS_ANY_REQUEST)


def _offers_changing_method(choices: Sequence[str]) -> bool:
    return any(choice.lower() in {"delete", "put", "patch"} for choice in choices)


def _is_address(words: Sequence[str]) -> bool:
    """Return whether a parameter is an address: `path` alone, `url` also with other words."""
    return bool(words) and (
        words[-1] in {"url", "uri", "href", "endpoint"}
        or (len(words) == 1 and words[0] in _ADDRESSES)
    )


def _find_switches(parameters: Sequence[Parameter]) -> Iterator[Finding]:
    """Yield findings for values that set off more than the name says: `purge`, `dry_run`."""
    for parameter in parameters:
        words = parameter.words
        if words[:1] == ("no",) or not words:
            continue
        opened = words[1:2] if words[0] in SWITCH_OPENERS else words[:1]
        if DELETING_SWITCHES.intersection(opened) and words[-1] not in _RECORDED:
            yield Finding(level="high", reason=reasons.ARGUMENT_DELETES)
        elif words == ("dry", "run") or words == ("in", "place") or _is_changing_switch(words):
            yield Finding(level="medium", reason=reasons.ARGUMENT_CHANGES)


def _is_changing_switch(words: Sequence[str]) -> bool:
    if len(words) == 1:
        return words[0] in CHANGING_SWITCHES
    is_of_originals = words[0] in {"remove", "replace", "overwrite", "create", "drop"}
    return is_of_originals and not _ORIGINALS.isdisjoint(words)


def _find_any_action(parameters: Sequence[Parameter], effect: Effect | None) -> Iterator[Finding]:
    """Yield a finding for a free action without a list of choices, unless the tool's name says
    that it reads."""
    for parameter in parameters:
        if parameter.words == ("action",) and parameter.is_free_text and effect != "reads":
            yield Finding(level="high", reason=reasons.TAKES_ACTION)
