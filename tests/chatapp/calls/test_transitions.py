"""The table of transitions, the function that stores them, and that nothing else stores a state."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.utils import timezone

from chatapp.calls.transitions import (
    INITIAL,
    TRANSITIONS,
    Actor,
    Worker,
    move_call,
    move_read_call,
    new_call,
)
from chatapp.journal.lease import Lease, LeaseLost, acquire, lock_turn
from chatapp.models import JournalEvent, LogEntry, ToolCall, Turn
from tests.turns import rows

State = ToolCall.State
ROOT = Path(__file__).parents[3]


# --- the table -----------------------------------------------------------------------------------
def test_the_table_has_every_state_and_final_states_have_no_successor() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {state for state, following in TRANSITIONS.items() if not following} == set(
        ToolCall.FINAL
    )


def test_every_state_can_be_reached_and_every_open_state_can_end() -> None:
    reached = set(INITIAL)
    while more := {to for state in reached for to in TRANSITIONS[state]} - reached:
        reached |= more
    assert reached == set(State)
    for state in set(State) - set(ToolCall.FINAL) - {State.UNKNOWN}:
        ends = {to for to in TRANSITIONS[state] if to in (*ToolCall.FINAL, State.UNKNOWN)}
        assert any(Actor.PERSON in TRANSITIONS[state][to] for to in ends), state
        assert any(Actor.WORKER in TRANSITIONS[state][to] for to in ends), state


def test_only_a_worker_sends_and_only_a_person_allows_what_needs_a_person() -> None:
    for state, following in TRANSITIONS.items():
        assert following.get(State.SENDING, {Actor.WORKER}) == {Actor.WORKER}
        if State.SENDING in following:
            assert state == State.APPROVED
    assert TRANSITIONS[State.AWAITING_APPROVAL][State.APPROVED] == {Actor.PERSON}
    assert TRANSITIONS[State.UNKNOWN][State.APPROVED] == {Actor.PERSON}


# --- one move ------------------------------------------------------------------------------------
@pytest.fixture
def lease(turn: Turn) -> Lease:
    taken = acquire(turn.pk)
    assert taken is not None
    return taken


@pytest.fixture
def call(turn: Turn) -> ToolCall:
    return rows.call(turn, {}, State.SENDING, attempt=2, binding="b")


def held_by(lease: Lease, attempt: int = 2, binding: str | None = "b") -> Worker:
    return Worker(lease=lease, attempt=attempt, binding=binding)


def state_of(call: ToolCall) -> str:
    return ToolCall.objects.get(pk=call.pk).state


def entries() -> tuple[int, int]:
    """How many entries about calls the journal and the audit log have."""
    told = JournalEvent.objects.filter(kind=JournalEvent.Kind.TOOL_CALL)
    return told.count(), LogEntry.objects.exclude(call_id=None).count()


@pytest.mark.django_db(transaction=True)
def test_a_move_is_stored_with_its_fields_and_told_in_the_journal_and_the_audit_log(
    turn: Turn, call: ToolCall, lease: Lease
) -> None:
    with lock_turn(lease) as held:
        assert move_call(
            held,
            call.pk,
            State.SUCCEEDED,
            by=held_by(lease),
            was=[State.SENDING],
            finished_at=timezone.now(),
        )
    call.refresh_from_db()
    assert (call.state, call.finished_at is not None, entries()) == (State.SUCCEEDED, True, (1, 1))


@pytest.mark.django_db(transaction=True)
def test_a_caller_may_append_the_journal_entry_itself(
    turn: Turn, call: ToolCall, lease: Lease
) -> None:
    collected: list[object] = []
    with lock_turn(lease) as held:
        for _ in range(2):
            move_call(
                held,
                call.pk,
                State.UNKNOWN,
                by=held_by(lease),
                was=[State.SENDING],
                entries=collected,  # type: ignore[arg-type]  # its entries are only counted
            )
    assert (state_of(call), len(collected), entries()) == (State.UNKNOWN, 1, (0, 0))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "stale",
    [
        lambda lease: held_by(replace(lease, fence=lease.fence - 1)),
        lambda lease: held_by(replace(lease, owner="another")),
        lambda lease: held_by(lease, attempt=1),
        lambda lease: held_by(lease, binding="another"),
    ],
    ids=["a stale fence", "another owner", "another attempt", "other arguments"],
)
def test_a_worker_with_something_stale_moves_nothing(
    turn: Turn, call: ToolCall, lease: Lease, stale: object
) -> None:
    worker = stale(lease)  # type: ignore[operator]  # one of the functions above
    to, was = State.SUCCEEDED, [State.SENDING]
    with lock_turn(lease) as held:
        assert not move_call(held, call.pk, to, by=worker, was=was)
    with pytest.raises(LeaseLost), lock_turn(lease) as held:
        move_read_call(held, call, to, by=worker, was=State.SENDING)
    assert (state_of(call), entries()) == (State.SENDING, (0, 0))


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_lost_the_turn_moves_nothing_even_without_the_lock(
    turn: Turn, call: ToolCall, lease: Lease
) -> None:
    Turn.objects.filter(pk=turn.pk).update(fence=lease.fence + 1, lease_owner="the next worker")
    stale = Turn.objects.get(pk=turn.pk)
    assert not move_call(stale, call.pk, State.FAILED, by=held_by(lease), was=[State.SENDING])
    assert (state_of(call), entries()) == (State.SENDING, (0, 0))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", sorted(set(State) - {State.AWAITING_APPROVAL}))
def test_a_call_in_another_state_is_not_moved(turn: Turn, state: State) -> None:
    call = rows.call(turn, {}, state)
    was = [State.AWAITING_APPROVAL]
    assert not move_call(turn, call.pk, State.APPROVED, by=Actor.PERSON, was=was)
    assert (state_of(call), entries()) == (state, (0, 0))


@pytest.mark.django_db(transaction=True)
def test_a_call_of_another_turn_is_not_moved(turn: Turn, call: ToolCall) -> None:
    other = rows.turn(turn.conversation.owner)
    assert not move_call(other, call.pk, State.UNKNOWN, by=Actor.PERSON, was=[State.SENDING])
    assert state_of(call) == State.SENDING


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("actor", [actor for actor in Actor if actor != Actor.WORKER])
def test_what_the_table_does_not_have_is_an_error_and_moves_nothing(
    turn: Turn, actor: Actor
) -> None:
    for was, following in TRANSITIONS.items():
        call = rows.call(turn, {}, was)
        for to in State:
            if actor not in following.get(to, ()):
                with pytest.raises(ValueError, match="moves no call"):
                    move_call(turn, call.pk, to, by=actor, was=[was])
        assert state_of(call) == was


def test_a_worker_without_a_lease_is_an_error(turn: Turn, call: ToolCall) -> None:
    with pytest.raises(ValueError, match="with its lease"):
        move_call(turn, call.pk, State.UNKNOWN, by=Actor.WORKER, was=[State.SENDING])


def test_a_new_call_is_proposed_or_has_failed() -> None:
    failed = new_call("It cannot be read.", arguments="{")
    assert {new_call().state, failed.state} == INITIAL
    assert failed.error is not None and failed.error["message"] == "It cannot be read."


# --- and no other writer -------------------------------------------------------------------------
WRITERS = {"update", "create", "get_or_create", "update_or_create", "bulk_create", "bulk_update"}
WRITERS |= {f"a{name}" for name in WRITERS}
# Models with a field `state` of their own.
OTHERS = {
    "Turn",
    "Step",
    "Approval",
    "AttentionCheck",
    "Question",
    "Review",
    "SecondOpinion",
    "Trial",
}
# Makes a call that is shown and never stored.
UNSTORED = "chatapp/approvals/attention_checks.py"
# Rooms whose rows have states of their own, and which touch no tool call.
ROOMS_WITHOUT_CALLS = {"accounts", "imports", "policy_changes", "projects"}
RELATED = {"questions": "Question", "tool_calls": "ToolCall"}


def writes_of_state(source: str) -> Iterator[int]:
    """The lines that may store a state of a tool call.

    They assign to an attribute `state`, make a `ToolCall` with a state, or write through a query
    with a state, or with keywords that cannot be read here. Queries of other models do not count.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                yield from (
                    node.lineno
                    for target in targets
                    if isinstance(target, ast.Attribute) and target.attr == "state"
                )
            case ast.Call(func=ast.Name(id="ToolCall"), keywords=keywords) if names_state(keywords):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name) as func, keywords=keywords) if (
                name in WRITERS
            ):
                model = model_of(func.value, tree)
                is_readable = all(each.arg is not None for each in keywords)
                may_store = names_state(keywords) or (model == "ToolCall" and not is_readable)
                if may_store and model not in OTHERS:
                    yield node.lineno
            case ast.Constant(value=str(text)) if "UPDATE chatapp_toolcall" in text:
                yield node.lineno


def names_state(keywords: list[ast.keyword]) -> bool:
    named = {each.value for keyword in keywords for each in constants(keyword)}
    return "state" in named or any(keyword.arg == "state" for keyword in keywords)


def constants(keyword: ast.keyword) -> Iterator[ast.Constant]:
    return (node for node in ast.walk(keyword.value) if isinstance(node, ast.Constant))


def model_of(query: ast.expr, tree: ast.Module, depth: int = 0) -> str:
    """The model that a query begins with: a name of a model, a related name, or what a local name
    was assigned or a function returns."""
    while not isinstance(query, ast.Name):
        match query:
            case ast.Attribute(attr=name) if name in RELATED:
                return RELATED[name]
            case ast.BoolOp(values=[*_, last]):
                query = last
            case ast.Call(func=value) | ast.Attribute(value=value):
                query = value
            case _:
                return ""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) if query.id == "cls" and query in ast.walk(node):
                return name
            case ast.FunctionDef(name=name, returns=ast.Subscript(slice=ast.Name(id=model))) if (
                name == query.id
            ):
                return model
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                name == query.id and depth < 3
            ):
                return model_of(value, tree, depth + 1)
    return query.id if query.id[0].isupper() else ""


def test_nothing_else_stores_a_state_of_a_tool_call() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / "chatapp").rglob("*.py")
        if "migrations" not in path.parts
        and path.name != "transitions.py"
        and path != ROOT / UNSTORED
        and not ROOMS_WITHOUT_CALLS & set(path.relative_to(ROOT / "chatapp").parts[:1])
        for line in writes_of_state(path.read_text())
    }
    assert found == set()


def test_a_call_that_is_only_shown_is_never_stored() -> None:
    source = (ROOT / UNSTORED).read_text()
    stored = re.findall(r"(\w[\w.]*)\.(?:save|create|bulk_create|update|get_or_create)\(", source)
    assert {name.partition(".")[0] for name in stored} <= {"AttentionCheck", "mine"}


@pytest.mark.parametrize("room", sorted(ROOMS_WITHOUT_CALLS))
def test_a_room_without_calls_touches_none(room: str) -> None:
    for path in (ROOT / "chatapp" / room).rglob("*.py"):
        assert not re.search(r"ToolCall\(|ToolCall\.objects|\.tool_calls", path.read_text()), (
            path.name
        )


@pytest.mark.parametrize(
    "planted",
    [
        "ToolCall.objects.filter(pk=pk).update(state=State.APPROVED)",
        "mine = ToolCall.objects.filter(pk=pk)\nmine.exclude(attempt=1).update(state=to)",
        "turn.tool_calls.update(state=to)",
        "def change(calls):\n    calls.update(state=to)",
        "ToolCall.objects.filter(pk=pk).update(**values)",
        "ToolCall.objects.update_or_create(pk=pk, defaults={'state': to})",
        "ToolCall.objects.create(turn=turn, state=to)",
        "ToolCall(turn=turn, state=to)",
        "call.state = to\ncall.save()",
        "cursor.execute('UPDATE chatapp_toolcall SET state = %s', [to])",
    ],
)
def test_a_planted_write_is_found(planted: str) -> None:
    assert list(writes_of_state(planted))


def test_writes_of_other_models_are_none() -> None:
    for source in (
        "Turn.objects.filter(pk=pk).update(state=to)",
        "asked = Approval.objects.filter(pk=pk)\nasked.update(state=to)",
        "ToolCall.objects.filter(pk=pk).update(progress='', attempt=1)",
    ):
        assert not list(writes_of_state(source))
