"""The page of one policy change: what it does, its effects, and who decides about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from django.contrib.humanize.templatetags.humanize import intcomma
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import localize, number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.models import Member, PolicyChange, PolicyEdit
from chatapp.permissions.reasons import translate_reason
from chatapp.policy_changes.approvers import PERMISSION, list_approvers
from chatapp.policy_changes.proposal import Proposal, Step, load_past_steps, load_proposal
from chatapp.policy_changes.rows import HOUSE_KEY, PolicyRow
from chatapp.simulation.policy_tests import ASKS, WORDS

from .change_texts import Line, describe_steps, list_lines
from .drafted_saves import IN_CHANGE, get_change_address
from .who_can import OUTCOMES, Outcome

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

State = PolicyChange.State
Kind = PolicyEdit.Kind
OPEN = (State.DRAFT, State.WAITING)
MOST_ROWS = 500
MOST_APPROVERS = 6
SHORTEST_WEEKS = 1 / 7
FORMS = {
    Kind.RULE: "policyrule",
    Kind.LIMIT: "toollimit",
    Kind.SECOND: "secondsignature",
    Kind.HOUSE: "housepolicy",
}
OUTCOME_OF_EFFECT = {"allow": "runs", "ask": "asks", "deny": "refused"}
ACT_TITLES: "dict[str, StrOrPromise]" = {
    "added": _lazy("added"),
    "changed": _lazy("changed"),
    "removed": _lazy("removed"),
}
EFFECTS: "tuple[tuple[str, StrOrPromise, str], ...]" = (
    ("allow", _lazy("Would have run"), "ran"),
    ("ask", _lazy("Would have asked"), "asked"),
    ("deny", _lazy("Would have been refused"), "refused"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRow:
    """An edit as it is drawn, with the address of its form in a draft of this admin."""

    pk: int
    title: str
    act: str
    lines: Sequence[Line]
    has_moved: bool
    problem: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackStep:
    """One step to the applied change; `state` is done, stop or next."""

    title: str
    about: str
    state: str


def build_page(request: HttpRequest, change: PolicyChange) -> dict[str, Any]:
    """Return what the template needs."""
    person = cast(Member, request.user)
    proposal = load_proposal(change) if change.state in OPEN else None
    steps = proposal.steps if proposal else load_past_steps(change)
    is_author = change.author_id == person.pk
    may_change = person.has_perm(PERMISSION)
    may_edit = may_change and is_author and change.state == State.DRAFT
    needs_second = bool(proposal and proposal.needs_second)
    tests = _build_tests(change)
    context: dict[str, Any] = {
        "title": change.title,
        "change": change,
        "about": describe_steps(steps),
        "edits": [_build_edit(step, change, may_edit, bool(proposal)) for step in steps],
        "version": proposal.version if proposal else "",
        "is_author": is_author,
        "may_change": may_change,
        "may_edit": may_edit,
        "needs_second": needs_second,
        "is_stale": bool(proposal and change.checked_for != proposal.version),
        "tests": tests,
        "simulation": _build_simulation(change, person),
        "history": list(_list_history(change)),
    }
    if proposal:
        context |= {
            "track": list(_list_track(change, proposal, tests)),
            "can_apply": bool(steps) and not proposal.problems and not tests.get("broken"),
        }
        if needs_second or _switches_second_on(proposal):
            context |= _build_approvers(change)
        if may_edit:
            context["options"] = list(_list_options(proposal))
            context["add_links"] = list(_list_add_links(change))
    return context


# --- edits -------------------------------------------------------------------------------------
def _build_edit(step: Step, change: PolicyChange, may_edit: bool, is_open: bool) -> EditRow:
    return EditRow(
        pk=step.edit.pk,
        title=step.title,
        act=str(ACT_TITLES[step.act]),
        lines=list_lines(step),
        has_moved=is_open and step.has_moved and not step.problem,
        problem=step.problem if is_open else "",
        address=_get_form_address(step, change) if may_edit and step.after else "",
    )


def _get_form_address(step: Step, change: PolicyChange) -> str:
    edit, model = step.edit, FORMS[Kind(step.edit.kind)]
    if edit.row_id is None:
        address = reverse(f"admin:chatapp_{model}_add")
        return f"{address}?{IN_CHANGE}={change.pk}&edit={edit.pk}"
    if step.before is None:
        return ""
    return get_row_address(change, edit.kind, edit.row_id, "change")


def get_row_address(change: PolicyChange, kind: str, row_id: int, act: str) -> str:
    """Return the address of the form that changes or deletes a stored row in this draft."""
    address = reverse(f"admin:chatapp_{FORMS[Kind(kind)]}_{act}", args=[row_id])
    return f"{address}?{IN_CHANGE}={change.pk}"


def _list_options(proposal: Proposal) -> Iterator[tuple[str, str]]:
    """Yield the stored rows to choose from, as the value and the text of an option."""
    rows = [pair for pair in proposal.stored.rows.items() if pair[0] != HOUSE_KEY]
    for (kind, pk), row in rows[:MOST_ROWS]:
        yield f"{kind} {pk}", row.title


def read_option(proposal_rows: Sequence[PolicyRow], wanted: str) -> PolicyRow | None:
    return next((row for row in proposal_rows if f"{row.kind} {row.row.pk}" == wanted), None)


def _list_add_links(change: PolicyChange) -> Iterator[tuple[str, str]]:
    texts = {
        Kind.RULE: _("Add a rule"),
        Kind.LIMIT: _("Add a tool limit"),
        Kind.SECOND: _("Add a second-approval requirement"),
    }
    for kind, text in texts.items():
        yield text, f"{reverse(f'admin:chatapp_{FORMS[kind]}_add')}?{IN_CHANGE}={change.pk}"
    yield _("Edit the policy for everybody"), get_row_address(change, *HOUSE_KEY, "change")


# --- effects -----------------------------------------------------------------------------------
def _build_tests(change: PolicyChange) -> dict[str, Any]:
    found = change.checks.get("tests")
    if not found:
        return {}
    failures = [
        {
            "name": each["name"],
            "expected": WORDS.get(each["expected"], each["expected"]),
            "found": _name_found(each["found"]),
            "reason": translate_reason(each["reason"]),
            "address": reverse("admin:chatapp_policytest_change", args=[each["id"]]),
        }
        for each in found["failures"]
    ]
    return {
        **found,
        "failures": failures,
        "passing": found["total"] - found["broken"] - found["failing_before"],
        "more": found["broken"] - len(failures),
    }


def _name_found(found: str) -> "StrOrPromise":
    """Return the decision as text. Both ways to ask may be joined, as in `type+two`."""
    return ASKS[2, True] if found == "type+two" else WORDS.get(found, found)


def _build_simulation(change: PolicyChange, person: Member) -> dict[str, Any]:
    found = change.checks.get("simulation")
    if not found or change.checked_at is None:
        return {}
    since = datetime.fromisoformat(found["since"])
    weeks = max((change.checked_at - since).total_seconds() / (7 * 86_400), SHORTEST_WEEKS)
    may_open = person.has_perm("chatapp.view_toolcall")
    return {
        "calls": found["calls"],
        "left_out": found["left_out"],
        "since": since,
        "changed": found["changed"],
        "figures": [
            (title, intcomma(found["after"][name]), _compare(found, name))
            for name, title, _role in EFFECTS
        ],
        "bars": [
            (text, list(_list_parts(found[side], found["calls"])), _describe_bar(found[side]))
            for side, text in (("before", _("Now")), ("after", _("With this change")))
        ]
        if found["calls"]
        else [],
        "people": list(_list_people(found, weeks)),
        "examples": [_build_example(each, may_open) for each in found["examples"]],
    }


def _compare(found: dict[str, Any], effect: str) -> str:
    difference = found["after"][effect] - found["before"][effect]
    if not difference:
        return _("no change")
    text = _("%(number)s more") if difference > 0 else _("%(number)s fewer")
    return text % {"number": intcomma(abs(difference))}


def _list_parts(counts: dict[str, int], calls: int) -> Iterator[tuple[str, str, str]]:
    """Yield the parts of a bar as role, place and width in percent."""
    place = 0.0
    for name, _title, role in EFFECTS:
        width = 100 * counts[name] / calls
        yield role, f"{place:.2f}", f"{width:.2f}"
        place += width


def _describe_bar(counts: dict[str, int]) -> str:
    values = {name: intcomma(number) for name, number in counts.items()}
    return _("%(allow)s run, %(ask)s ask, %(deny)s are refused") % values


def _list_people(found: dict[str, Any], weeks: float) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name of each person, with the questions a week now, then, and the difference."""
    rows = [(each["person"], each["before"], each["after"]) for each in found["people"]]
    others = found["others"]
    if others["count"]:
        text = ngettext("%(count)s other", "%(count)s others", others["count"])
        name = text % {"count": intcomma(others["count"])}
        rows.append((name, others["before"], others["after"]))
    for name, before, after in rows:
        now, then = before / weeks, after / weeks
        difference = then - now
        sign = "+" if difference > 0 else "−" if difference < 0 else ""
        numbers = [number_format(number, 1) for number in (now, then, abs(difference))]
        yield name, numbers[0], numbers[1], f"{sign}{numbers[2]}"


def _build_example(each: dict[str, Any], may_open: bool) -> dict[str, Any]:
    address = reverse("admin:chatapp_toolcall_change", args=[each["call_id"]])
    return {
        "tool": each["tool_id"],
        "person": each["person"],
        "at": datetime.fromisoformat(each["at"]),
        "before": _draw_effect(each["before"]),
        "after": _draw_effect(each["after"]),
        "reason": translate_reason(each["reason"]),
        "address": address if may_open else "",
    }


def _draw_effect(effect: str) -> Outcome:
    name = OUTCOME_OF_EFFECT[effect]
    word, icon = OUTCOMES[name]
    return Outcome(name=name, word=str(word), icon=icon)


# --- the way to the applied change -------------------------------------------------------------
def _list_track(
    change: PolicyChange, proposal: Proposal, tests: dict[str, Any]
) -> Iterator[TrackStep]:
    number = len(proposal.steps)
    text = ngettext("%(count)s edit", "%(count)s edits", number) % {"count": intcomma(number)}
    yield TrackStep(title=_("Draft"), about=text, state="done" if number else "next")
    is_current = bool(tests) and change.checked_for == proposal.version
    broken = tests.get("broken", 0)
    failing = ngettext("%(count)s test fails", "%(count)s tests fail", broken)
    about = failing % {"count": intcomma(broken)} if broken else _("none fails newly")
    waits = _("not run yet")
    yield TrackStep(
        title=_("Tests"),
        about=about if is_current else waits,
        state=("stop" if broken else "done") if is_current else "next",
    )
    yield TrackStep(
        title=_("Simulation"),
        about=_count_questions(change) if is_current else waits,
        state="done" if is_current else "next",
    )
    if proposal.needs_second:
        is_waiting = change.state == State.WAITING
        about = _("waiting for another admin") if is_waiting else _("not asked yet")
        yield TrackStep(title=_("Second approval"), about=about, state="next")
    yield TrackStep(title=_("Apply"), about=_("can be undone"), state="next")


def _count_questions(change: PolicyChange) -> str:
    found = change.checks["simulation"]
    difference = found["after"]["ask"] - found["before"]["ask"]
    if not difference:
        return _("as many questions")
    if difference > 0:
        text = ngettext("%(number)s more question", "%(number)s more questions", difference)
    else:
        text = ngettext("%(number)s fewer question", "%(number)s fewer questions", -difference)
    return text % {"number": intcomma(abs(difference))}


def _switches_second_on(proposal: Proposal) -> bool:
    return bool(proposal.drafted.rows[HOUSE_KEY].row.changes_need_second)


def _build_approvers(change: PolicyChange) -> dict[str, Any]:
    found = list_approvers(change)
    return {
        "shows_approvers": True,
        "approvers": found[:MOST_APPROVERS],
        "more_approvers": len(found[MOST_APPROVERS:]),
    }


def _list_history(change: PolicyChange) -> Iterator[tuple[str, str, str]]:
    """Yield what happened to the change, newest first: the title, who and when, and a note."""
    events: list[tuple[datetime | None, str, Member | None, str]] = [
        (change.created_at, _("Draft created"), change.author, ""),
        (change.checked_at, _("Tests and simulation ran"), None, ""),
        (change.submitted_at, _("Sent for approval"), change.author, ""),
    ]
    if change.state == State.REJECTED:
        events.append((change.decided_at, _("Rejected"), change.decided_by, change.note))
    elif change.state == State.DISCARDED:
        events.append((change.decided_at, _("Discarded"), change.decided_by, ""))
    elif change.decided_at is not None:
        events.append((change.decided_at, _("Approved"), change.decided_by, change.note))
    if change.applied_at is not None:
        events.append((change.applied_at, _("Applied"), change.applied_by, ""))
    dated = [(at, title, who, note) for at, title, who, note in events if at is not None]
    for at, title, who, note in sorted(dated, key=lambda event: event[0], reverse=True):
        moment = localize(timezone.localtime(at))
        yield title, f"{who.display_name}, {moment}" if who else moment, note


def list_related(change: PolicyChange) -> list[tuple[str, PolicyChange, str]]:
    """Return the changes that this one undoes, or that undo it, with their addresses."""
    found: list[tuple[str, PolicyChange]] = []
    if change.undoes is not None:
        found.append((_("Undoes"), change.undoes))
    by = change.undone_by.exclude(state__in=(State.REJECTED, State.DISCARDED)).first()
    if by is not None:
        found.append((_("Undone by"), by))
    return [(text, each, get_change_address(each)) for text, each in found]
