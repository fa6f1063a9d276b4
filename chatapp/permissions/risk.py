"""How risky a tool is, and why: the base table, then its name, its schema and its own hints."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .description_evidence import judge_description
from .findings import LEVELS, Finding, Level, found
from .name_evidence import effect_of_name
from .parameters import UnreadableSchema, parameters_of
from .schema_evidence import judge_schema
from .vocabulary import HARMLESS_FORMS, VERBS, Effect
from .words import mixes_alphabets, words_of

logger = logging.getLogger(__name__)

_BASE_TABLE: dict[str, Level] = {
    "delete": "high",
    "create": "high",
    "write": "medium",
    "send": "medium",
}
_MAX_REASONS = 4
KNOWN_WORDS = HARMLESS_FORMS | VERBS.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What a service says about a tool, as it was sent: the schema and the hints may be anything.

    `is_trusted`: an admin trusts the service, so that its hints may lower a risk.
    """

    name: str
    description: str
    input_schema: object
    annotations: object
    is_trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    level: Level
    reasons: tuple[str, ...]


def base_risk(name: str) -> Level:
    """The base table: a part of the name decides, and what is not in the table is low."""
    lowered = name.lower()
    held = (level for part, level in _BASE_TABLE.items() if part in lowered)
    return max(held, key=LEVELS.index, default="low")


def classify(tool: ToolFacts, admin_level: str | None = None) -> Risk:
    """The level of a tool with its reasons. An admin's level wins; what fails is high.

    `admin_level` is the text that is stored; one that is no level counts as the highest.
    """
    try:
        if admin_level is not None:
            return _set_by_admin(admin_level)
        return _weigh(tool)
    except UnreadableSchema:
        return Risk(level="high", reasons=("The description of its input cannot be read.",))
    except Exception:
        # Closed by default: a tool that the code here stumbles over must not become a harmless one.
        logger.exception("A tool could not be judged.")
        return Risk(level="high", reasons=("It could not be judged.",))


def _set_by_admin(text: str) -> Risk:
    for level in LEVELS:
        if text == level:
            return Risk(level=level, reasons=("An admin set this level.",))
    return Risk(level="high", reasons=("An admin set a level that does not exist.",))


def _weigh(tool: ToolFacts) -> Risk:
    if not isinstance(tool.annotations, Mapping | None):
        return Risk(level="high", reasons=("The hints of its service cannot be read.",))
    hints = tool.annotations or {}
    findings = [*_evidence(tool), *_raising_hints(hints)]
    if tool.is_trusted and _claims_to_read(hints):
        reason = "Its service says that it only reads, and an admin trusts that service."
        return Risk(level="low", reasons=(reason,))
    level = max((finding.level for finding in findings), key=LEVELS.index)
    told = dict.fromkeys(finding.reason for finding in findings if finding.level == level)
    return Risk(level=level, reasons=tuple(told)[:_MAX_REASONS])


def _claims_to_read(hints: Mapping[object, object]) -> bool:
    """A service that says both "only reads" and "may destroy" is not believed."""
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") in (False, None)


def _evidence(tool: ToolFacts) -> list[Finding]:
    """What the tool itself shows, the service's hints aside."""
    effect = effect_of_name(tool.name)
    schema = judge_schema(parameters_of(tool.input_schema), tool.name, effect)
    findings = [*_name_findings(tool.name, effect), *schema, *judge_description(tool.description)]
    if effect is None and not schema:
        findings.append(Finding(level="medium", reason="Nothing in its name says what it does."))
    return findings


def _name_findings(name: str, effect: Effect | None) -> Iterator[Finding]:
    if mixes_alphabets(name):
        yield Finding(level="high", reason="Its name mixes letters of different alphabets.")
    if effect is not None:
        yield found(effect, source="Its name")
    # The base table finds its verbs inside words that cannot be cut; a known word says it itself.
    uncut = "_".join(word for word in words_of(name) if word not in KNOWN_WORDS)
    if (level := base_risk(uncut)) != "low":
        yield Finding(level=level, reason="A verb that does harm is hidden in its name.")


def _raising_hints(hints: Mapping[object, object]) -> Iterator[Finding]:
    """Anything but a plain "no" counts as a yes; a hint that is missing says nothing."""
    is_read_only = hints.get("readOnlyHint")
    if hints.get("destructiveHint") not in (False, None) and is_read_only is not True:
        yield Finding(level="medium", reason="Its service says that it may destroy something.")
    if is_read_only not in (True, None):
        yield Finding(level="medium", reason="Its service says that it changes something.")
