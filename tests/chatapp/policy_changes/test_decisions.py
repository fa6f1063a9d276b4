"""A policy change is applied as it was shown, by whom it may be, once; and undone if nothing came
after it."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from chatapp.models import (
    HousePolicy,
    LogEntry,
    Member,
    PolicyChange,
    PolicyRule,
    SecondSignature,
    ToolLimit,
)
from chatapp.people.refused import Refused
from chatapp.policy.stored_policy import load_policy
from chatapp.policy_changes import decisions, drafting
from chatapp.policy_changes.approvers import list_approvers
from chatapp.policy_changes.proposal import load_past_steps, load_proposal
from chatapp.policy_changes.rows import MODELS, Kind, References, read_values
from tests.chatapp.admin.policy.policy_rows import group_of, policy_test, rule, shop

pytestmark = pytest.mark.django_db
State = PolicyChange.State


@pytest.fixture
def second(db: None) -> Member:
    """Another admin with the policy right."""
    return Member.objects.create_user(
        "second", password="second-password", is_staff=True, rights=["policy"]
    )


@pytest.fixture
def change(admin: Member) -> PolicyChange:
    """A draft that adds a rule for a group, changes a rule, and deletes a limit."""
    refused = rule("deny", name="Refused", tool="pay")
    limit = ToolLimit.objects.create(calls=3)
    made = drafting.start(admin, "Let Finance pay", "They asked.")
    row = PolicyRule(name="Finance pays", effect="allow", tool="pay")
    added = read_values(row, [group_of(name="Finance")])
    drafting.store_edit(made, admin, Kind.RULE, None, added)
    changed = read_values(refused) | {"is_enabled": False}
    drafting.store_edit(made, admin, Kind.RULE, refused.pk, changed)
    drafting.store_edit(made, admin, Kind.LIMIT, limit.pk, None)
    return made


def version_of(change: PolicyChange) -> str:
    return load_proposal(PolicyChange.objects.get(pk=change.pk)).version


def require_second() -> None:
    HousePolicy.objects.update_or_create(pk=1, defaults={"changes_need_second": True})


def state_of(change: PolicyChange) -> str:
    return PolicyChange.objects.get(pk=change.pk).state


def kinds() -> list[str]:
    """The decisions in the log, without the steps of the draft."""
    rows = LogEntry.objects.filter(kind__startswith="policy_change").order_by("position")
    kinds = [kind.removeprefix("policy_change.") for kind in rows.values_list("kind", flat=True)]
    return [kind for kind in kinds if kind != "drafted"]


def stored() -> list[Any]:
    rules = [
        (each.name, each.is_enabled, sorted(group.name for group in each.groups.all()))
        for each in PolicyRule.objects.order_by("pk")
    ]
    return [*rules, ToolLimit.objects.count()]


BEFORE = [("Refused", True, []), 1]
AFTER = [("Refused", False, []), ("Finance pays", True, ["Finance"]), 0]


# --- applying ----------------------------------------------------------------------------------
def test_a_change_is_applied_as_a_whole_and_counts_for_the_next_call(
    change: PolicyChange, admin: Member
) -> None:
    assert stored() == BEFORE
    assert len(load_policy(admin, None).rules) == 2
    decisions.apply_change(change.pk, admin, version_of(change))
    assert stored() == AFTER
    (allowed,) = load_policy(admin, None).rules
    assert getattr(allowed, "effect") == "allow"  # noqa: B009  # one of several kinds of rules
    assert (state_of(change), kinds()) == (State.APPLIED, ["applied"])


def test_the_log_has_the_versions_the_edits_and_each_row(
    change: PolicyChange, admin: Member
) -> None:
    version = version_of(change)
    decisions.apply_change(change.pk, admin, version)
    entry = LogEntry.objects.get(kind="policy_change.applied")
    data = json.loads(entry.data)
    assert (data["of"], data["author"]) == ("policy change “Let Finance pay”", "admin")
    assert (data["version"], len(data["policy_before"])) == (version, 64)
    assert data["policy_before"] != data["policy_after"]
    assert [(each["of"], each["act"]) for each in data["edits"]] == [
        ("rule “Finance pays”", "added"),
        ("rule “Refused”", "changed"),
        ("tool limit “each tool: 3 per day”", "removed"),
    ]
    rows = LogEntry.objects.filter(kind="policy.changed").values_list("data", flat=True)
    assert any("Finance pays" in each and "added" in each for each in rows)


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda change, admin: rule("ask", name="New"),
        lambda change, admin: PolicyRule.objects.filter(name="Refused").update(note="Other"),
        lambda change, admin: PolicyRule.objects.get(name="Refused").groups.add(
            Group.objects.create(name="Other")
        ),
        lambda change, admin: HousePolicy(asks_everything=True).save(),
        lambda change, admin: drafting.remove_edit(change, admin, change.edits.last().pk),
        lambda change, admin: drafting.store_edit(
            change, admin, Kind.LIMIT, None, read_values(ToolLimit(calls=9))
        ),
    ],
    ids=["rule added", "rule changed", "groups changed", "house", "edit removed", "edit added"],
)
def test_what_was_not_shown_is_not_applied(
    change: PolicyChange, admin: Member, meanwhile: Any
) -> None:
    version = version_of(change)
    meanwhile(change, admin)
    before = stored()
    with pytest.raises(Refused, match="different from what you were shown"):
        decisions.apply_change(change.pk, admin, version)
    assert (stored(), state_of(change), kinds()) == (before, State.DRAFT, [])


def test_a_change_that_breaks_a_policy_test_is_refused_whole(
    change: PolicyChange, admin: Member, owner: Member
) -> None:
    made = shop(visibility="everyone")
    guard = rule("deny", name="Guard", service=made, tool="read_label")
    policy_test(owner, made, "read_label", "deny", name="Never read")
    drafting.store_edit(change, admin, Kind.RULE, guard.pk, None)
    before = stored()
    with pytest.raises(decisions.ChangeRefused) as refused:
        decisions.apply_change(change.pk, admin, version_of(change))
    assert refused.value.sentences[0] == "Nothing was changed, because a policy test would fail."
    assert "“Never read”. Expected: is refused. Actual: runs" in refused.value.sentences[1]
    assert (stored(), state_of(change)) == (before, State.DRAFT)


def test_a_draft_for_a_row_that_is_gone_or_names_a_group_that_is_gone_is_refused(
    change: PolicyChange, admin: Member
) -> None:
    Group.objects.all().delete()
    PolicyRule.objects.all().delete()
    with pytest.raises(decisions.ChangeRefused) as refused:
        decisions.apply_change(change.pk, admin, version_of(change))
    group, row = refused.value.sentences
    assert "“Finance pays” names what no longer exists: deleted group" in group
    assert row == "The rule “Refused” no longer exists. Remove this edit."
    assert stored() == [1]


def test_an_empty_change_is_refused(admin: Member) -> None:
    empty = drafting.start(admin, "Nothing")
    with pytest.raises(Refused, match="no edits"):
        decisions.apply_change(empty.pk, admin, version_of(empty))


def test_a_second_approval_that_a_rule_needs_is_not_removed(admin: Member) -> None:
    needed = SecondSignature.objects.create(name="Board", approvers=group_of(name="Board"))
    row = rule("ask", name="Pay", second=needed)
    change = drafting.start(admin, "No board")
    drafting.store_edit(change, admin, Kind.SECOND, needed.pk, None)
    with pytest.raises(Refused, match="It is used by: rule “Pay”"):
        decisions.apply_change(change.pk, admin, version_of(change))
    drafting.store_edit(change, admin, Kind.RULE, row.pk, read_values(row) | {"second_id": None})
    decisions.apply_change(change.pk, admin, version_of(change))
    assert not SecondSignature.objects.exists()


# --- the second admin --------------------------------------------------------------------------
def test_another_admin_approves_and_the_author_cannot(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    require_second()
    with pytest.raises(Refused, match="need a second admin"):
        decisions.apply_change(change.pk, admin, version_of(change))
    decisions.submit(change.pk, admin, version_of(change))
    acts: list[Callable[[], None]] = [
        lambda: decisions.approve(change.pk, admin, version_of(change)),
        lambda: decisions.reject(change.pk, admin, "No"),
    ]
    for act in acts:
        with pytest.raises(Refused, match="because it is yours"):
            act()
    with pytest.raises(Refused, match="no longer a draft"):
        drafting.remove_edit(change, admin, change.edits.first().pk)  # type: ignore[union-attr]
    assert (stored(), state_of(change)) == (BEFORE, State.WAITING)
    decisions.approve(change.pk, second, version_of(change), "Agreed.")
    assert (stored(), state_of(change)) == (AFTER, State.APPLIED)
    assert kinds() == ["submitted", "approved", "applied"]
    row = PolicyChange.objects.get(pk=change.pk)
    assert (row.decided_by, row.applied_by, row.note) == (second, second, "Agreed.")


def test_nobody_but_the_author_edits_or_submits(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    """An admin who could edit somebody else's draft could then approve what they wrote."""
    edit = change.edits.first()
    assert edit is not None
    acts: list[Callable[[], None]] = [
        lambda: drafting.remove_edit(change, second, edit.pk),
        lambda: drafting.store_edit(change, second, Kind.LIMIT, None, {"calls": 1}),
        lambda: drafting.describe(change, second, "Mine", ""),
        lambda: drafting.reopen(change, second),
        lambda: decisions.submit(change.pk, second, version_of(change)),
    ]
    for act in acts:
        with pytest.raises(Refused, match="Only the author"):
            act()
    assert change.edits.count() == 3


def test_a_stale_approval_is_refused(change: PolicyChange, admin: Member, second: Member) -> None:
    require_second()
    decisions.submit(change.pk, admin, version_of(change))
    shown = version_of(change)
    rule("ask", name="New")
    with pytest.raises(Refused, match="different from what you were shown"):
        decisions.approve(change.pk, second, shown)
    assert (state_of(change), kinds()) == (State.WAITING, ["submitted"])
    row = PolicyChange.objects.get(pk=change.pk)
    assert row.decided_by is None


def test_an_approval_of_what_the_author_changed_meanwhile_is_refused(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    require_second()
    decisions.submit(change.pk, admin, version_of(change))
    shown = version_of(change)
    drafting.reopen(change, admin)
    drafting.store_edit(change, admin, Kind.LIMIT, None, read_values(ToolLimit(calls=9)))
    with pytest.raises(Refused, match="“draft” now"):
        decisions.approve(change.pk, second, shown)
    decisions.submit(change.pk, admin, version_of(change))
    with pytest.raises(Refused, match="different from what you were shown"):
        decisions.approve(change.pk, second, shown)
    assert state_of(change) == State.WAITING


def test_a_rejected_change_can_be_a_draft_again(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    require_second()
    decisions.submit(change.pk, admin, version_of(change))
    decisions.reject(change.pk, second, "Not yet.")
    assert (state_of(change), stored()) == (State.REJECTED, BEFORE)
    with pytest.raises(Refused, match="“rejected” now"):
        decisions.approve(change.pk, second, version_of(change))
    drafting.reopen(change, admin)
    assert (state_of(change), kinds()) == (State.DRAFT, ["submitted", "rejected", "reopened"])


def test_switching_the_second_admin_off_needs_the_second_admin(
    admin: Member, second: Member
) -> None:
    require_second()
    change = drafting.start(admin, "Alone")
    off = read_values(HousePolicy.current()) | {"changes_need_second": False}
    drafting.store_edit(change, admin, Kind.HOUSE, 1, off)
    with pytest.raises(Refused, match="need a second admin"):
        decisions.apply_change(change.pk, admin, version_of(change))
    decisions.submit(change.pk, admin, version_of(change))
    decisions.approve(change.pk, second, version_of(change))
    assert not HousePolicy.current().changes_need_second


def test_only_active_admins_with_the_policy_right_approve(
    change: PolicyChange, admin: Member, second: Member, owner: Member
) -> None:
    admins: dict[str, dict[str, Any]] = {
        "clerk": {"is_staff": True, "rights": ["people"]},
        "auditor": {"is_staff": True, "rights": ["audit"]},
        "gone": {"is_staff": True, "rights": ["policy"], "is_active": False},
        "root": {"is_staff": True, "is_superuser": True},
    }
    for name, fields in admins.items():
        Member.objects.create_user(name, password="a-long-password", **fields)
    assert [each.username for each in list_approvers(change)] == ["root", "second"]


def test_an_operator_applies_without_a_second_admin(change: PolicyChange) -> None:
    require_second()
    decisions.apply_as_operator(change.pk)
    assert stored() == AFTER
    entry = LogEntry.objects.get(kind="policy_change.applied")
    assert (entry.actor_id, entry.actor_name) == (None, "operator")


# --- undoing -----------------------------------------------------------------------------------
def test_an_applied_change_is_undone_by_a_change_of_its_own_and_that_again(
    change: PolicyChange, admin: Member
) -> None:
    was = [*PolicyRule.objects.values(), *ToolLimit.objects.values()]
    decisions.apply_change(change.pk, admin, version_of(change))
    reverse, refusal = decisions.undo(change.pk, admin)
    assert refusal is None
    now = [*PolicyRule.objects.values(), *ToolLimit.objects.values()]
    assert [each | {"changed_at": 0} for each in now] == [each | {"changed_at": 0} for each in was]
    assert (state_of(change), state_of(reverse)) == (State.UNDONE, State.APPLIED)
    assert kinds() == ["applied", "applied", "undone"]
    _again, refusal = decisions.undo(reverse.pk, admin)
    assert refusal is None
    assert stored() == AFTER


@pytest.mark.parametrize(
    "later",
    [
        lambda: PolicyRule.objects.filter(name="Finance pays").update(note="New"),
        lambda: PolicyRule.objects.filter(name="Refused").delete(),
        lambda: PolicyRule.objects.get(name="Finance pays").groups.clear(),
    ],
    ids=["changed", "deleted", "groups"],
)
def test_a_change_is_not_undone_after_a_later_change_of_its_rows(
    change: PolicyChange, admin: Member, later: Any
) -> None:
    decisions.apply_change(change.pk, admin, version_of(change))
    later()
    before = stored()
    with pytest.raises(Refused, match="these were changed after it: rule"):
        decisions.undo(change.pk, admin)
    assert (stored(), state_of(change), PolicyChange.objects.count()) == (before, "applied", 1)


def test_later_changes_of_other_rows_do_not_prevent_an_undo(
    change: PolicyChange, admin: Member
) -> None:
    decisions.apply_change(change.pk, admin, version_of(change))
    rule("ask", name="Other")
    assert decisions.undo(change.pk, admin)[1] is None


def test_an_undo_needs_the_second_admin_too(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    decisions.apply_change(change.pk, admin, version_of(change))
    require_second()
    reverse, refusal = decisions.undo(change.pk, second)
    assert (refusal, stored(), state_of(reverse)) == (None, AFTER, State.WAITING)
    with pytest.raises(Refused, match="already a change that undoes"):
        decisions.undo(change.pk, admin)
    with pytest.raises(Refused, match="because it is yours"):
        decisions.approve(reverse.pk, second, version_of(reverse))
    PolicyRule.objects.filter(name="Finance pays").update(note="New")
    with pytest.raises(Refused, match="these were changed after it"):
        decisions.approve(reverse.pk, admin, version_of(reverse))
    PolicyRule.objects.filter(name="Finance pays").update(note="")
    decisions.approve(reverse.pk, admin, version_of(reverse))
    assert (stored(), state_of(change)) == (BEFORE, State.UNDONE)


def test_an_undo_that_breaks_a_policy_test_stays_a_draft(
    change: PolicyChange, admin: Member, owner: Member
) -> None:
    made = shop(visibility="everyone")
    guard = PolicyRule(name="Guard", effect="deny", service=made, tool="read_label")
    drafting.store_edit(change, admin, Kind.RULE, None, read_values(guard, []))
    decisions.apply_change(change.pk, admin, version_of(change))
    policy_test(owner, made, "read_label", "deny", name="Never read")
    reverse, refusal = decisions.undo(change.pk, admin)
    assert refusal is not None and "“Never read”" in refusal.sentence
    assert (state_of(reverse), state_of(change)) == (State.DRAFT, State.APPLIED)
    assert PolicyRule.objects.filter(name="Guard").exists()


def test_what_was_applied_is_shown_as_it_was(change: PolicyChange, admin: Member) -> None:
    decisions.apply_change(change.pk, admin, version_of(change))
    PolicyRule.objects.all().delete()
    Group.objects.all().delete()
    added, changed, removed = load_past_steps(PolicyChange.objects.get(pk=change.pk))
    assert (added.act, changed.act, removed.act) == ("added", "changed", "removed")
    assert added.after is not None and "deleted group" in added.after.groups[0].name


# --- races -------------------------------------------------------------------------------------
def race(*acts: Any) -> list[str]:
    """Do all at once, each on a connection of its own; return the refusals."""
    start, refusals = threading.Barrier(len(acts)), []

    def run(act: Any) -> None:
        try:
            start.wait(20)
            act()
        except Refused as refused:
            refusals.append(refused.sentence)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return refusals


@pytest.mark.django_db(transaction=True)
def test_of_two_who_apply_the_same_change_at_once_one_is_refused(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    version = version_of(change)
    refusals = race(
        lambda: decisions.apply_change(change.pk, admin, version),
        lambda: decisions.apply_change(change.pk, second, version),
    )
    assert len(refusals) == 1 and "“applied” now" in refusals[0]
    assert (stored(), kinds()) == (AFTER, ["applied"])


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_that_are_applied_at_once_the_second_is_stale(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    other = drafting.start(second, "Other")
    row = PolicyRule.objects.get(name="Refused")
    drafting.store_edit(other, second, Kind.RULE, row.pk, read_values(row) | {"effect": "ask"})
    versions = version_of(change), version_of(other)
    refusals = race(
        lambda: decisions.apply_change(change.pk, admin, versions[0]),
        lambda: decisions.apply_change(other.pk, second, versions[1]),
    )
    assert refusals == [str(decisions.STALE)]
    assert kinds() == ["applied"]


@pytest.mark.django_db(transaction=True)
def test_an_approval_and_a_withdrawal_at_once_leave_one_outcome(
    change: PolicyChange, admin: Member, second: Member
) -> None:
    require_second()
    decisions.submit(change.pk, admin, version_of(change))
    version = version_of(change)
    refusals = race(
        lambda: decisions.approve(change.pk, second, version),
        lambda: drafting.reopen(change, admin),
    )
    assert len(refusals) == 1
    applied = state_of(change) == State.APPLIED
    assert stored() == (AFTER if applied else BEFORE)


# --- every field of the policy -----------------------------------------------------------------
@pytest.mark.parametrize("kind", MODELS)
def test_a_change_carries_every_field_of_the_policy(kind: str) -> None:
    """Whatever a later version adds is in the version that was shown, and can be loaded."""
    options = MODELS[kind]._meta
    carried = set(read_values(MODELS[kind](), []))
    stored = {each.attname for each in options.concrete_fields if not each.primary_key}
    assert stored - carried <= {"changed_at"}
    assert {each.name for each in options.many_to_many} == carried - stored
    relations = {each.attname: 1 for each in options.concrete_fields if each.is_relation}
    References.load([(kind, relations)]).build(kind, 1, relations)
