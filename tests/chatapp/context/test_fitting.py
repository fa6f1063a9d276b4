"""Conversations that outgrow their model: shortened, then summarised, said, and taken back."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from chatapp.api.outcomes import sum_tokens as tokens_of_program
from chatapp.context import shortening, summaries
from chatapp.context.shortening import find_turn_starts
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.engine.turn_state import read_turn
from chatapp.journal.journal import CHANGED, SUMMARISED, add_notice
from chatapp.journal.lease import acquire, lock_turn
from chatapp.live.page_facts import count_figures, load_gauge
from chatapp.models import (
    ChatModel,
    Conversation,
    Member,
    Message,
    ModelProvider,
    Part,
    Summary,
    Turn,
    UsageOfDay,
)
from chatapp.providers.access import model_choice
from chatapp.providers.estimate import count_text_tokens, count_tokens
from chatapp.providers.events import Finished, ProviderError, TextDelta, Usage
from chatapp.providers.request import ModelRequest
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import Pause, Scene, text
from tests.turns import rows
from tests.turns.acts import read_notices, wait_for_rest

LONG = "Line of a log. " * 400


pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> ChatModel:
    """The scripted model, of which an admin said that it reads 3,000 tokens."""
    provider = ModelProvider(slug="scripted", kind="scripted", label="Scripted")
    facts = ChatModel(provider=provider, name="model", context_tokens=3_000, asked_tokens=200)
    chosen = model_choice.choose_model

    def with_facts(model_id: str, person: Member | None) -> model_choice.ChosenModel:
        found = chosen(model_id, person)
        return model_choice.ChosenModel(
            kind=found.kind, name=found.name, account=found.account, facts=facts
        )

    monkeypatch.setattr("chatapp.engine.model_request.choose_model", with_facts)
    return facts


def long_chat(owner: Member, *, results: tuple[str, ...] = (), words: str = "") -> Conversation:
    """A conversation with these old results, and old answers of these words."""
    conversation = Conversation.objects.create(owner=owner, title="Long", last_seq=100)
    latest: Message | None = None
    for number, result in enumerate(results or ("", "", "", "")):
        chained: dict[str, Any] = {"conversation": conversation, "created_seq": 2 * number + 1}
        question = Message.objects.create(parent=latest, role="user", **chained)
        Part.objects.create(message=question, position=0, kind="text", text=f"Question {number}")
        chained["created_seq"] += 1
        latest = Message.objects.create(parent=question, role="assistant", **chained)
        turn = Turn.objects.create(
            conversation=conversation, question=question, answer=latest, state=Turn.State.DONE
        )
        if result:
            content = {"content": [{"type": "text", "text": result}]}
            rows.call(turn, state="succeeded", result=content)
        rows.said(turn, words or "Well.")
    return conversation


async def asked(runtime: EngineRuntime, owner: Member, conversation: Conversation) -> Turn:
    def ask() -> Turn:
        return intake.receive(owner, conversation, text="And now?", model=scripted.MODEL)

    return await wait_for_rest(runtime, await in_database(ask))


def told_last() -> ModelRequest:
    return scripted.requests[-1]


async def test_a_chat_that_fits_is_sent_as_it_is(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(long_chat, owner)
    scripted.scenes.append(text("Fine."))
    turn = await asked(runtime, owner, conversation)
    assert await in_database(read_notices, turn) == []
    assert len(find_turn_starts(told_last().history)) == 5


async def test_old_results_are_shortened_first_and_the_page_says_so(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=(LONG, LONG, "x")))
    scripted.scenes.append(text("Fine."))
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.DONE
    assert count_tokens(told_last()) <= 3_000
    (notice,) = await in_database(read_notices, turn)
    assert notice.startswith("2 tool results were shortened for the model")
    assert len(scripted.requests) == 1
    assert not await in_database(Summary.objects.exists)


WORDY = "Said at great length, with every detail of it. " * 60


async def test_then_old_turns_are_summarised_which_can_be_taken_back_and_used_again(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    scripted.scenes += [text("They want X; ", "note 7 is open."), text("Fine.")]
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.DONE
    noting, told = scripted.requests
    assert noting.system == shortening.INSTRUCTIONS
    assert noting.tools == ()
    assert "Said at great length" in noting.history[0].text  # type: ignore[union-attr]
    assert "They want X; note 7 is open." in told.history[0].text  # type: ignore[union-attr]
    assert count_tokens(told) <= 3_000
    summary = await in_database(Summary.objects.get, conversation=conversation)
    assert summary.turns == 3
    usage = await in_database(UsageOfDay.objects.get, person=owner)
    assert usage.calls == 2

    def take_back() -> None:
        client = signed_in(owner)
        page = parse(client.get(f"/c/{conversation.pk}/").content.decode())
        assert "They want X; note 7 is open." in page.text
        assert page.button("Remove summary")
        client.post(f"/summaries/{summary.pk}/use", {"use": "no"})
        page = parse(client.get(f"/c/{conversation.pk}/").content.decode())
        assert page.button("Use summary again")

    await in_database(take_back)
    refused = await asked(runtime, owner, conversation)
    assert refused.state == Turn.State.FAILED
    assert "you removed its summary" in (await in_database(read_notices, refused))[0]
    await in_database(lambda: signed_in(owner).post(f"/summaries/{summary.pk}/use", {"use": "yes"}))
    scripted.scenes.append(text("Fine again."))
    again = await asked(runtime, owner, conversation)
    assert again.state == Turn.State.DONE
    assert "note 7 is open" in told_last().history[0].text  # type: ignore[union-attr]


async def test_a_summary_is_made_once_and_told_from_then_on(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    scripted.scenes += [text("The notes."), text("Fine."), text("Fine again.")]
    await asked(runtime, owner, conversation)
    await asked(runtime, owner, conversation)
    assert len(scripted.requests) == 3
    assert "The notes." in told_last().history[0].text  # type: ignore[union-attr]


async def test_a_model_whose_size_nobody_knows_gets_less_after_it_refused(
    runtime: EngineRuntime, owner: Member
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=(LONG, LONG, "x")))
    too_long = ProviderError(kind="too_long", message="Too long.", hint="Less.")
    scripted.scenes += [[too_long], text("Fine.")]
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.DONE
    first, second = scripted.requests
    assert count_tokens(second) < count_tokens(first)


async def test_a_question_that_is_too_long_by_itself_says_so(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    small.context_tokens = 60
    turn = await in_database(lambda: intake.receive(owner, None, text=LONG, model=scripted.MODEL))
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert "exceed the model’s context" in (await in_database(read_notices, done))[0]
    assert scripted.requests == []


async def test_a_stranger_cannot_take_a_summary_back(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    scripted.scenes += [text("The notes."), text("Fine.")]
    await asked(runtime, owner, conversation)

    def strange() -> Any:
        summary = Summary.objects.get(conversation=conversation)
        stranger = Member.objects.create_user("stranger", password="a-long-password")
        status = signed_in(stranger).post(f"/summaries/{summary.pk}/use", {"use": "no"}).status_code
        return status, Summary.objects.get().is_used

    assert await in_database(strange) == (404, True)


async def test_a_summary_counts_for_its_answer_its_chat_and_its_turn(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    small.input_price, small.output_price = Decimal(1_000), Decimal(10_000)
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    for words, used in ("Notes.", (70, 7)), ("Fine.", (30, 3)):
        told = Usage(input_tokens=used[0], output_tokens=used[1])
        scripted.scenes.append([TextDelta(text=words), told, Finished(reason="stop")])
    turn = await asked(runtime, owner, conversation)

    def check() -> None:
        cost = (Decimal("0.2"), "USD")  # (70 + 30) × 0.001 + (7 + 3) × 0.01
        figures = count_figures([turn])[turn.pk]
        assert (figures.output_tokens, figures.costs) == (10, (cost,))
        gauge = load_gauge(conversation)
        assert (gauge.tokens, gauge.total_tokens, gauge.costs) == (33, 110, (cost,))
        spent = tokens_of_program(turn)
        assert (spent["input_tokens"], spent["output_tokens"]) == (100, 10)
        assert UsageOfDay.objects.get().cost == Decimal("0.2")
        Turn.objects.filter(pk=turn.pk).update(state=Turn.State.QUEUED, lease_until=None)
        lease = acquire(turn.pk)
        assert lease and read_turn(lease)[1].used.tokens == 110

    await in_database(check)


@pytest.mark.parametrize(
    ("scene", "says"),
    [
        (text("No.", reason="refused"), "wrote no summary"),
        (text(""), "wrote no summary"),
        (text("They want X; no", reason="length"), "was cut off"),
    ],
)
async def test_notes_that_are_not_whole_are_not_kept_but_counted(
    runtime: EngineRuntime, owner: Member, small: ChatModel, scene: Scene, says: str
) -> None:
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    scripted.scenes.append(scene)
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.FAILED
    assert says in (await in_database(read_notices, turn))[0]
    assert not await in_database(Part.objects.filter(notice_kind="summary").exists)
    assert (await in_database(UsageOfDay.objects.get)).output_tokens == 5


async def test_notes_that_were_stopped_are_counted_as_well(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    pause = Pause()
    scripted.scenes.append([TextDelta(text="They want"), pause])
    turn = await in_database(
        lambda: intake.receive(owner, conversation, text="And now?", model=scripted.MODEL)
    )
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(intake.stop, conversation)
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.STOPPED
    counted = await in_database(UsageOfDay.objects.get)
    assert counted.input_tokens == count_tokens(scripted.requests[0])
    assert counted.output_tokens == count_text_tokens("They want")


NOTES = "Note of something that was agreed on. " * 10


async def test_what_cannot_be_noted_at_once_is_noted_round_by_round(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=("x",) * 30, words=WORDY))
    scripted.scenes += [text(NOTES + "End one."), text("Notes two."), text("Fine.")]
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.DONE, await in_database(read_notices, turn)
    first, second, told = scripted.requests
    assert first.parameters.effort == "off"
    assert f"{NOTES}End one." in second.history[0].text  # type: ignore[union-attr]
    assert "Notes two." in told.history[0].text  # type: ignore[union-attr]
    summary = await in_database(Summary.objects.get)
    asked_in = [request.history[0].text for request in (first, second)]  # type: ignore[union-attr]
    noted = [n for n in range(30) if any(f"Question {n}\n" in words for words in asked_in)]
    assert noted == list(range(summary.turns))
    assert len(find_turn_starts(told.history)) == 31 - summary.turns


async def test_a_model_that_reads_too_little_to_summarise_is_not_asked_to(
    runtime: EngineRuntime, owner: Member, small: ChatModel
) -> None:
    small.context_tokens = 600
    conversation = await in_database(lambda: long_chat(owner, words=WORDY))
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.FAILED
    assert "too small for a summary" in (await in_database(read_notices, turn))[0]
    assert scripted.requests == []


def test_a_summary_grows_in_its_place_beside_the_other_notices(turn: Turn) -> None:
    lease = acquire(turn.pk)
    assert lease is not None
    with lock_turn(lease) as held:
        add_notice(held, CHANGED, "A tool has changed.")
    summaries.store_summary(lease, 2, "Not\x00es.", "m")
    summaries.store_summary(lease, 5, "More \ud800notes.", "m")
    places = Part.objects.filter(message=turn.answer).values_list("position", flat=True)
    assert sorted(places) == [CHANGED, SUMMARISED]
    summary = Summary.objects.get()
    assert (summary.turns, summary.text) == (5, "More ?notes.")


def test_only_the_widest_summary_counts(owner: Member, turn: Turn) -> None:
    kept = []
    for turns, asked in ((2, turn), (4, None)):
        if asked is None:
            Turn.objects.update(state=Turn.State.DONE, lease_until=None)
            chat = turn.conversation
            asked = intake.receive(owner, chat, text="More", model=scripted.MODEL)
        lease = acquire(asked.pk)
        assert lease is not None
        summaries.store_summary(lease, turns, f"Notes of {turns}.", "m")
        kept.append(Summary.objects.get(turns=turns))
    older, wider = kept
    client, conversation = signed_in(owner), turn.conversation

    def page() -> str:
        return parse(client.get(f"/c/{conversation.pk}/").content.decode()).text

    assert page().count("Remove summary") == 1
    assert page().count("A newer summary replaced this one.") == 1
    summaries.switch_summary(older, is_used=False)
    assert summaries.load_summary(conversation) == wider
    assert not summaries.was_undone(conversation)
    assert "Summary removed" not in page()
    summaries.switch_summary(older, is_used=True)
    summaries.switch_summary(wider, is_used=False)
    assert summaries.load_summary(conversation) is None
    assert summaries.was_undone(conversation)
    assert "Summary removed. The model sees the full chat again." in page()
