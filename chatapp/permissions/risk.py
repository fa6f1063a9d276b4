"""How risky a tool is, and why: the base table, then its name, its schema and its own hints."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chatapp.permissions import reasons
from chatapp.permissions.description_evidence import judge_description
from chatapp.permissions.risk_evidence import (
    LEVELS,
    Finding,
    Level,
    UnreadableSchema,
    detect_name_effect,
    find_unknown_parts,
    judge_schema,
    make_finding,
    read_parameters,
)

from .risk_vocabulary import HARMLESS_FORMS, VERBS, Effect
from .word_splitting import mixes_alphabets, split_words

logger = logging.getLogger(__name__)

_BASE_TABLE: dict[str, Level] = {
    "delete": "high",
    "create": "high",
    "write": "medium",
    "send": "medium",
}
_MAX_REASONS = 4
_MAX_OPINION_REASONS = 2
KNOWN_WORDS = HARMLESS_FORMS | VERBS.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What a service says about a tool, unchecked: the schema and the hints may be anything.

    `is_trusted`: an admin trusts the service, so its hints may lower a risk.
    """

    name: str
    description: str
    input_schema: object
    annotations: object
    is_trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What a model says about the risk of a tool. The model read the tool's definition, so all of
    it may be what the service wants: it can raise a risk, and never lower one."""

    level: str
    model: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    level: Level
    reasons: tuple[str, ...]


def base_risk(name: str) -> Level:
    """Return the level of the base table: a part of the name decides, and a name without one is
    low."""
    lowered = name.lower()
    held = (level for part, level in _BASE_TABLE.items() if part in lowered)
    return max(held, key=LEVELS.index, default="low")


def classify(
    tool: ToolFacts, admin_level: str | None = None, opinion: Opinion | None = None
) -> Risk:
    """Return the level of a tool with its reasons. An admin's level takes precedence; any failure
    is high.

    `admin_level` is the stored text. A text that is not a level counts as the highest level.
    `opinion` counts only if its level is higher.
    """
    try:
        if admin_level is not None:
            return _apply_admin_level(admin_level)
        return _raise_by_opinion(_weigh(tool), opinion)
    except UnreadableSchema:
        return Risk(level="high", reasons=(reasons.UNREADABLE_SCHEMA,))
    except Exception:
        # Closed by default: if this code fails, the tool must not count as harmless.
        logger.exception("A tool could not be judged.")
        return Risk(level="high", reasons=(reasons.NOT_ASSESSED,))


def _apply_admin_level(text: str) -> Risk:
    for level in LEVELS:
        if text == level:
            return Risk(level=level, reasons=(reasons.SET_BY_ADMIN,))
    return Risk(level="high", reasons=(reasons.SET_TO_UNKNOWN,))


def _raise_by_opinion(risk: Risk, opinion: Opinion | None) -> Risk:
    """Return the risk with the level of the opinion if that is higher, and with the reasons of
    both."""
    for level in LEVELS[LEVELS.index(risk.level) + 1 :]:
        if opinion is not None and opinion.level == level:
            told = [reasons.write_opinion(opinion.model, each) for each in opinion.reasons]
            return Risk(level=level, reasons=(*told[:_MAX_OPINION_REASONS], *risk.reasons))
    return risk


def _weigh(tool: ToolFacts) -> Risk:
    if not isinstance(tool.annotations, Mapping | None):
        return Risk(level="high", reasons=(reasons.UNREADABLE_HINTS,))
    hints = tool.annotations or {}
    findings = [*_collect_evidence(tool), *_judge_hints(hints)]
    if tool.is_trusted and _claims_to_read(hints):
        return Risk(level="low", reasons=(reasons.TRUSTED_SERVICE_SAYS_READS,))
    level = max((finding.level for finding in findings), key=LEVELS.index)
    told = dict.fromkeys(finding.reason for finding in findings if finding.level == level)
    return Risk(level=level, reasons=tuple(told)[:_MAX_REASONS])


def _claims_to_read(hints: Mapping[object, object]) -> bool:
    """Return whether the hints say that the tool only reads. Contradictory hints do not count."""
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") in (False, None)


def _collect_evidence(tool: ToolFacts) -> list[Finding]:
    """Return the findings of the tool itself, without the service's hints."""
    effect = detect_name_effect(tool.name)
    schema = judge_schema(read_parameters(tool.input_schema), tool.name, effect)
    findings = [*_judge_name(tool.name, effect), *schema, *judge_description(tool.description)]
    if effect is None and not schema:
        findings.append(Finding(level="medium", reason=reasons.NAME_SAYS_NOTHING))
    return findings


def _judge_name(name: str, effect: Effect | None) -> Iterator[Finding]:
    if mixes_alphabets(name):
        yield Finding(level="high", reason=reasons.NAME_MIXES_ALPHABETS)
    if effect is not None:
        yield make_finding(effect, source=reasons.NAME_SAYS)
    yield from find_unknown_parts(name, effect)
    # The base table matches its verbs inside words that cannot be split. Known words are judged by
    # their own entry instead.
    uncut = "_".join(word for word in split_words(name) if word not in KNOWN_WORDS)
    if (level := base_risk(uncut)) != "low":
        yield Finding(level=level, reason=reasons.NAME_HOLDS_RISKY_VERB)


def _judge_hints(hints: Mapping[object, object]) -> Iterator[Finding]:
    """Yield findings for hints. Any value except a plain "no" counts as a yes; a missing hint
    counts as nothing."""
    is_read_only = hints.get("readOnlyHint")
    if hints.get("destructiveHint") not in (False, None) and is_read_only is not True:
        yield Finding(level="medium", reason=reasons.SERVICE_SAYS_DESTRUCTIVE)
    if is_read_only not in (True, None):
        yield Finding(level="medium", reason=reasons.SERVICE_SAYS_CHANGES)
