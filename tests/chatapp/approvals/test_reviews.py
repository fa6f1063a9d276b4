"""Results that a person sees before the assistant does: nothing is told that nobody gave."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chatapp.approvals import reviews
from chatapp.context import history, withheld_results
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import LogEntry, Member, Review, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolSetting
from tests import scripted
from tests.chatapp.context.test_files import image, outcomes
from tests.scripted import calls, text
from tests.turns import rows
from tests.turns.acts import READ, get_only_call, get_owner, read_last_outcome, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
SECRET = "Nothing of worth."
MISSING = ("notebook_read_note", '{"title": "No such note"}')


@pytest.fixture
def reviewed(notebook: Service) -> Service:
    """A service one of whose tools has its results looked at first."""
    ToolSetting.objects.update_or_create(
        service=notebook, name="read_note", defaults={"wants_review": True}
    )
    return notebook


async def held(
    runtime: EngineRuntime, turn: Turn, call: tuple[str, str] = READ, answer: str = "So it is."
) -> ToolCall:
    """A call of a turn that waits because nobody has looked at its result yet."""
    scripted.scenes += [calls(call), text(answer)]
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    return await of(turn)


async def of(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.select_related("review", "turn").get, turn=turn)


async def given(call: ToolCall, turn: Turn) -> None:
    await in_database(
        reviews.give_result, call, by=get_owner(turn), binding=call.review.binding, shown_at=None
    )


def held_row(person: Member, state: str = "", **values: Any) -> ToolCall:
    """A call in rows whose result waits for a look."""
    call = rows.call(rows.turn(person), state=state, result=found("Private words"), **values)
    return reviewed_row(call)


def reviewed_row(call: ToolCall) -> ToolCall:
    Review.objects.create(
        tool_call=call,
        binding=withheld_results.hash_result(ToolCall.objects.get(pk=call.pk)),
        expires_at=timezone.now() + timedelta(days=7),
    )
    return call


def found(words: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}], "structured": None, "is_error": False}


# --- in whole turns ------------------------------------------------------------------------------
async def test_the_turn_waits_until_a_person_has_looked(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    call = await held(runtime, turn)
    assert (call.state, call.review.state) == (ToolCall.State.SUCCEEDED, Review.State.OPEN)
    assert len(scripted.requests) == 1, "The model was asked before anybody had looked."
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.lease_owner, now.lease_until) == ("", None), "A pause holds nothing."


async def test_what_is_given_reaches_the_model_as_it_is(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    call = await held(runtime, turn)
    await given(call, turn)
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert SECRET in read_last_outcome()


async def test_what_is_held_back_does_not_reach_the_model_but_the_word_does(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    call = await held(runtime, turn)
    await in_database(
        reviews.withhold_result,
        call,
        by=get_owner(turn),
        binding=call.review.binding,
        reason=" Ask me about it. ",
    )
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert SECRET not in str(scripted.requests)
    assert (
        "succeeded" in read_last_outcome() and "They said: Ask me about it." in read_last_outcome()
    )
    asked, told = scripted.requests[-1].history[-2:]
    assert asked.parts[-1].call_id == told.call_id, "Each call has its outcome."  # type: ignore[union-attr]


async def test_a_failure_is_looked_at_too(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    call = await held(runtime, turn, MISSING)
    assert call.state == ToolCall.State.FAILED
    await in_database(
        reviews.withhold_result, call, by=get_owner(turn), binding=call.review.binding
    )
    await wait_for_rest(runtime, turn)
    assert "No such note" not in read_last_outcome()
    assert scripted.requests[-1].history[-1].is_error  # type: ignore[union-attr]


async def test_a_tool_whose_results_nobody_wants_to_see_is_not_held(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    """The setting counts with the next call, and can be taken back."""
    await in_database(ToolSetting.objects.update, wants_review=False)
    scripted.scenes += [calls(READ), text("So it is.")]
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.DONE
    assert not await in_database(Review.objects.exists)


async def test_several_results_are_looked_at_one_by_one(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ, MISSING), text("So it is.")]
    await wait_for_rest(runtime, turn)
    person = get_owner(turn)
    first, second = await in_database(lambda: list(reviews.filter_open_reviews(person)))
    await given(first, turn)
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.WAITING, (
        "One is enough for nobody."
    )
    await given(second, turn)
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.DONE


async def test_another_worker_goes_on_where_the_first_one_died(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    """Result and review are stored by one commit, so whoever comes later waits as well."""
    await held(runtime, turn)
    await in_database(
        Turn.objects.filter(pk=turn.pk).update,
        state=Turn.State.RUNNING,
        lease_owner="the dead",
        lease_until="2020-01-01T00:00Z",
    )
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.WAITING
    assert len(scripted.requests) == 1


async def test_a_result_is_never_stored_without_its_review(
    runtime: EngineRuntime, reviewed: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps the review from being stored keeps the result from being told."""
    monkeypatch.setattr(withheld_results, "hash_result", _broken)
    scripted.scenes += [calls(READ), text("So it is.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.UNKNOWN
    assert SECRET not in str(scripted.requests)


def _broken(call: ToolCall) -> str:
    raise ValueError("This review cannot be stored.")


# --- silence and endings -------------------------------------------------------------------------
async def test_silence_holds_it_back_and_the_turn_goes_on(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    call = await held(runtime, turn)
    await in_database(Review.objects.update, expires_at="2020-01-01T00:00Z")
    with pytest.raises(Refused, match="too late"):
        await given(call, turn)
    await in_database(reviews.expire_reviews)
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert (await of(turn)).review.state == Review.State.EXPIRED
    assert SECRET not in read_last_outcome()
    assert "Nobody looked at it in time." in read_last_outcome()


async def test_a_new_message_holds_it_back_for_good(
    runtime: EngineRuntime, reviewed: Service, turn: Turn
) -> None:
    call = await held(runtime, turn, answer="All right.")
    second = await in_database(
        intake.receive,
        get_owner(turn),
        turn.conversation,
        text="Leave it.",
        model=scripted.MODEL,
    )
    await wait_for_rest(runtime, second)
    assert SECRET not in str(scripted.requests)
    with pytest.raises(Refused, match="ended"):
        await given(call, turn)


def test_stop_holds_it_back(owner: Member) -> None:
    call = held_row(owner)
    intake.stop(call.turn.conversation)
    assert Review.objects.get().state == Review.State.WITHDRAWN
    assert ToolCall.objects.get().state == ToolCall.State.SUCCEEDED, "It did run."


# --- one word, about what was shown --------------------------------------------------------------
def test_the_first_word_counts(owner: Member) -> None:
    call = held_row(owner)
    binding = call.review.binding
    reviews.withhold_result(call, by=owner, binding=binding)
    with pytest.raises(Refused, match="Already withheld by owner"):
        reviews.give_result(call, by=owner, binding=binding, shown_at=None)
    with pytest.raises(Refused, match="Already withheld"):
        reviews.withhold_result(call, by=owner, binding=binding)
    assert Review.objects.get().state == Review.State.HELD_BACK


def test_twenty_words_at_once_are_one(owner: Member) -> None:
    call = held_row(owner)
    binding = call.review.binding

    def say(number: int) -> bool:
        try:
            if number % 2:
                reviews.give_result(call, by=owner, binding=binding, shown_at=None)
            else:
                reviews.withhold_result(call, by=owner, binding=binding)
        except Refused:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(say, range(20))) == 1
    assert LogEntry.objects.filter(kind__startswith="review.").count() == 1


@pytest.mark.parametrize("changed", ["result", "error", "state"])
def test_another_result_than_the_shown_one_is_not_given(owner: Member, changed: str) -> None:
    call = held_row(owner)
    other = {"result": found("Other words"), "error": {"kind": "x"}, "state": "failed"}
    ToolCall.objects.update(**{changed: other[changed]})
    with pytest.raises(Refused, match="changed after you opened it"):
        reviews.give_result(call, by=owner, binding=call.review.binding, shown_at=None)
    assert Review.objects.get().state == Review.State.OPEN


def test_what_changed_after_it_was_given_is_not_told(owner: Member) -> None:
    """The hash is compared once more where the model is told."""
    call = held_row(owner)
    reviews.give_result(call, by=owner, binding=call.review.binding, shown_at=None)
    assert "Private words" in str(history.build_history(call.turn))
    ToolCall.objects.update(result=found("Planted words"))
    assert "Planted words" not in str(history.build_history(call.turn))


def test_giving_sooner_than_a_person_can_read_is_refused(owner: Member) -> None:
    call = held_row(owner)
    with pytest.raises(Refused, match="before you could read"):
        reviews.give_result(call, by=owner, binding=call.review.binding, shown_at=time.time() - 0.1)
    reviews.give_result(call, by=owner, binding=call.review.binding, shown_at=time.time() - 0.5)
    assert Review.objects.get().state == Review.State.GIVEN


def test_a_word_has_a_bound(owner: Member) -> None:
    call = held_row(owner)
    with pytest.raises(Refused, match="2,000"):
        reviews.withhold_result(call, by=owner, binding=call.review.binding, reason="x" * 2_001)


def test_a_call_without_a_review_has_nothing_to_give(owner: Member) -> None:
    call = rows.call(rows.turn(owner), result=found("Plain"))
    binding = withheld_results.hash_result(ToolCall.objects.get())
    with pytest.raises(Refused, match="does not wait for review"):
        reviews.give_result(call, by=owner, binding=binding, shown_at=None)


# --- what the model is told ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "is_told"),
    [("open", False), ("given", True), ("held_back", False), ("expired", False)]
    + [("withdrawn", False)],
)
def test_only_what_was_given_is_told(owner: Member, state: str, is_told: bool) -> None:
    call = held_row(owner)
    Review.objects.update(state=state)
    assert ("Private words" in str(history.build_history(call.turn))) is is_told


@pytest.mark.parametrize("state", ["open", "given", "held_back"])
def test_pictures_of_a_held_result_stay_here_as_well(owner: Member, state: str) -> None:
    result = found("See") | {"content": [image()]}
    call = reviewed_row(rows.call(rows.turn(owner), result=result))
    Review.objects.update(state=state)
    [outcome] = outcomes(history.build_history(call.turn))
    assert bool(outcome.media) is (state == "given")


# --- whose they are ------------------------------------------------------------------------------
def test_open_reviews_are_those_of_ones_own_chats(owner: Member) -> None:
    stranger = Member.objects.create_user("stranger", password="a-long-password")
    mine, _theirs = held_row(owner), held_row(stranger)
    assert list(reviews.filter_open_reviews(owner)) == [mine]
    reviews.withhold_result(mine, by=owner, binding=mine.review.binding)
    assert not reviews.filter_open_reviews(owner).exists()


# --- the log -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("end", "kind", "by"),
    [
        ("give", "review.given", "owner"),
        ("hold_back", "review.held_back", "owner"),
        ("expire", "review.expired", ""),
        ("stop", "review.withdrawn", ""),
    ],
)
def test_each_end_of_a_review_is_logged_once(owner: Member, end: str, kind: str, by: str) -> None:
    call = held_row(owner)
    bound: dict[str, Any] = {"by": owner, "binding": call.review.binding}
    if end == "give":
        reviews.give_result(call, shown_at=None, **bound)
    elif end == "hold_back":
        reviews.withhold_result(call, **bound)
    elif end == "expire":
        Review.objects.update(expires_at="2020-01-01T00:00Z")
        reviews.expire_reviews()
    else:
        intake.stop(call.turn.conversation)
    [entry] = LogEntry.objects.filter(call_id=call.pk)
    assert (entry.kind, entry.actor_name) == (kind, by)
    assert call.review.binding in entry.data
    assert "Private words" not in entry.data
