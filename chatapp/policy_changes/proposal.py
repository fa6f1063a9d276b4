"""What a change would do to the stored policy, row by row, and the version that stands for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from django.utils.translation import gettext as _

from chatapp.models import PolicyChange, PolicyEdit
from chatapp.policy.stored_policy import SECONDS
from mcpconfig.values.results import canonical_json

from .rows import HOUSE_KEY, Key, Kind, PolicyRow, PolicyRows, References, Values, are_equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One edit: the row before and after it. `has_moved`: the stored row was changed after it was
    edited in the draft. A `problem` prevents the change from being applied."""

    edit: PolicyEdit
    before: PolicyRow | None
    after: PolicyRow | None
    has_moved: bool = False
    problem: str = ""

    @property
    def act(self) -> str:
        if self.before is None:
            return "added"
        return "changed" if self.after is not None else "removed"

    @property
    def title(self) -> str:
        row = self.after or self.before
        return row.title if row else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change beside the policy of this moment. `version` stands for both: applying the change
    takes the version that the admin was shown."""

    change: PolicyChange
    steps: Sequence[Step]
    stored: PolicyRows
    drafted: PolicyRows
    version: str

    @property
    def problems(self) -> list[str]:
        return [step.problem for step in self.steps if step.problem]

    @property
    def needs_second(self) -> bool:
        """Return whether the policy of this moment asks for a second admin."""
        return bool(self.stored.rows[HOUSE_KEY].row.changes_need_second)


def load_proposal(change: PolicyChange) -> Proposal:
    """Load a change that is not applied yet, beside the stored policy: ten statements."""
    stored, edits = PolicyRows.load(), list(change.edits.all())
    references = _load_references(edits)
    steps = [_build_step(edit, stored, references) for edit in edits]
    rows = dict(stored.rows)
    for step in steps:
        # A row that the change adds has no id yet.
        key = (step.edit.kind, step.edit.row_id or -step.edit.pk)
        if step.after is None:
            rows.pop(key, None)
        else:
            rows[key] = step.after
    return Proposal(
        change=change,
        steps=[_refuse_removal_of_used(step, rows) for step in steps],
        stored=stored,
        drafted=PolicyRows(rows=rows),
        version=_hash_version(stored, edits),
    )


def load_past_steps(change: PolicyChange) -> list[Step]:
    """Load the edits of a change as they were drafted or applied."""
    edits = list(change.edits.all())
    references = _load_references(edits)
    return [
        Step(
            edit=edit,
            before=_build_row(references, edit, edit.before),
            after=_build_row(references, edit, edit.after),
        )
        for edit in edits
    ]


def _load_references(edits: Sequence[PolicyEdit]) -> References:
    pairs = ((edit.kind, values) for edit in edits for values in (edit.before, edit.after))
    return References.load([(kind, values) for kind, values in pairs if values is not None])


def _build_row(references: References, edit: PolicyEdit, values: Values | None) -> PolicyRow | None:
    return references.build(edit.kind, edit.row_id, values) if values is not None else None


def _build_step(edit: PolicyEdit, stored: PolicyRows, references: References) -> Step:
    after = _build_row(references, edit, edit.after)
    before = stored.rows.get((edit.kind, edit.row_id or 0))
    if before is None and edit.before is not None:
        drafted = _build_row(references, edit, edit.before)
        text = _("The %(row)s no longer exists. Remove this edit.")
        problem = text % {"row": drafted.title if drafted else ""}
        return Step(edit=edit, before=drafted, after=after, has_moved=True, problem=problem)
    return Step(
        edit=edit,
        before=before,
        after=after,
        has_moved=before is not None and not are_equal(before.values, edit.before),
        problem=_find_gone(after),
    )


def _find_gone(after: PolicyRow | None) -> str:
    if after is None or not after.gone:
        return ""
    values = {"row": after.title, "names": ", ".join(after.gone)}
    return _("The %(row)s names what no longer exists: %(names)s. Edit it again.") % values


def _refuse_removal_of_used(step: Step, drafted: Mapping[Key, PolicyRow]) -> Step:
    if step.after is not None or step.edit.kind != Kind.SECOND or step.problem:
        return step
    users = [
        row.title
        for row in drafted.values()
        if any(row.values.get(name) == step.edit.row_id for name in SECONDS)
    ]
    if not users:
        return step
    text = _("The %(row)s cannot be removed. It is used by: %(users)s.")
    return replace(step, problem=text % {"row": step.title, "users": ", ".join(users)})


def _hash_version(stored: PolicyRows, edits: Sequence[PolicyEdit]) -> str:
    drafted = [[edit.kind, edit.row_id, edit.after] for edit in edits]
    return hash_json({"policy": stored.values, "edits": drafted})


def hash_json(value: object) -> str:
    return sha256(canonical_json(value)).hexdigest()
