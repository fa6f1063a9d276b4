"""Policy changes in words: what a change does, and the lines of each row before and after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import HousePolicy, PolicyEdit
from chatapp.policy_changes.proposal import Step
from chatapp.policy_changes.rows import PolicyRow

from .sentences import describe_limit, describe_second_signature, list_rule_sentences

Kind = PolicyEdit.Kind
ACTS = {
    "added": _lazy("Adds the %(row)s."),
    "changed": _lazy("Changes the %(row)s."),
    "removed": _lazy("Removes the %(row)s."),
}
MOST_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a difference. `mark` is + or −, and empty for a line that stays."""

    mark: str
    text: str


def describe_steps(steps: Sequence[Step]) -> str:
    """Return what the change does. Of a single edit it also says what the row does then."""
    if not steps:
        return _("This change has no edits yet.")
    sentences = [str(ACTS[step.act]) % {"row": step.title} for step in steps[:MOST_NAMED]]
    if len(steps) == 1:
        (step,) = steps
        if step.edit.kind == Kind.HOUSE:
            sentences += [f"{line.text}." for line in list_lines(step) if line.mark == "+"]
        elif step.after is not None:
            sentences += _list_texts(step.after)
    if more := len(steps) - MOST_NAMED if len(steps) > MOST_NAMED else 0:
        sentences.append(_("Further edits: %(number)s.") % {"number": more})
    return " ".join(sentences)


def list_lines(step: Step) -> list[Line]:
    """Return the lines of the row before and after. Of the policy for everybody, only what
    changes."""
    before, after = (_list_texts(row) if row else [] for row in (step.before, step.after))
    if step.act == "changed" and (renamed := _find_new_name(step)):
        after.insert(0, renamed)
    lines = list(_compare(before, after))
    return [line for line in lines if line.mark] if step.edit.kind == Kind.HOUSE else lines


def _compare(before: list[str], after: list[str]) -> Iterable[Line]:
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield from (Line(mark="", text=text) for text in before[start:end])
        else:
            yield from (Line(mark="−", text=text) for text in before[start:end])
            yield from (Line(mark="+", text=text) for text in after[new_start:new_end])


def _find_new_name(step: Step) -> str:
    names = [
        row.values.get("name", "") if row is not None else "" for row in (step.before, step.after)
    ]
    return "" if names[0] == names[1] else _("Name: %(name)s") % {"name": names[1]}


def _list_texts(row: PolicyRow) -> list[str]:
    match row.kind:
        case Kind.RULE:
            texts = list_rule_sentences(row.row, row.groups)
            if row.row.note:
                texts.append(_("Note: %(note)s") % {"note": row.row.note})
            if not row.row.is_enabled:
                texts.append(_("The rule is switched off."))
            return texts
        case Kind.LIMIT:
            return [describe_limit(row.row)]
        case Kind.SECOND:
            return [describe_second_signature(row.row)]
        case _:
            return _list_fields(row)


def _list_fields(row: PolicyRow) -> list[str]:
    fields = [field for field in HousePolicy._meta.concrete_fields if field.editable]
    lines = [(field.verbose_name, _show_value(row.row, field)) for field in fields]
    groups = HousePolicy.adding_groups.field
    lines.append((groups.verbose_name, ", ".join(group.name for group in row.groups)))
    return [f"{capfirst(name)}: {value or '–'}" for name, value in lines]


def _show_value(row: Any, field: Any) -> str:
    value = getattr(row, field.name)
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if field.choices:
        return str(getattr(row, f"get_{field.name}_display")())
    return ", ".join(str(value).splitlines()) if value is not None else ""
