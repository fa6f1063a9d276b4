"""Models whose size nobody said: what their provider finds too long is sent again with less."""

from dataclasses import replace

import pytest

from chatapp.context.fitting import AFTER_REFUSALS, calculate_room, reduce_room
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_facts import load_gauge
from chatapp.models import ChatModel, Conversation, Member, Step, Summary, Turn
from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.account import Account
from chatapp.providers.estimate import count_tokens
from chatapp.providers.model_facts import CONTEXT_TOKENS, DEFAULT_MODELS
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import Limit, text
from tests.turns.acts import read_notices

from .test_fitting import LONG, WORDY, asked, long_chat

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
SHORT = "2 tool results were shortened for the model. You still see all of them here."
NAMING = "This model's maximum context length is 3,500 tokens. However, you asked for 12,000."
ACCOUNT = Account(names=scripted.NAMES)


async def test_a_limit_that_the_provider_names_is_kept_at_once(
    runtime: EngineRuntime, owner: Member
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=(LONG * 4, LONG * 3)))
    scripted.limits.append(Limit(tokens=4_500, complaint=NAMING.replace("3,", "4,")))
    scripted.scenes.append(text("Fine."))
    turn = await asked(runtime, owner, conversation)
    assert (turn.state, await in_database(read_notices, turn)) == (Turn.State.DONE, [SHORT])
    first, second = map(count_tokens, scripted.requests)
    assert first > 11_000
    assert second < 4_500


@pytest.mark.parametrize("complaint", [NAMING, "The prompt is too long"])
async def test_a_chat_of_twelve_thousand_tokens_goes_on_with_a_model_that_reads_a_quarter(
    runtime: EngineRuntime, owner: Member, complaint: str
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=("",) * 15, words=WORDY))
    scripted.limits.append(Limit(tokens=3_500, complaint=complaint))
    scripted.scenes += [text("They want X."), text("Fine.")]
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.DONE
    assert count_tokens(scripted.requests[0]) > 12_000
    assert count_tokens(scripted.requests[-1]) <= 3_500
    assert (await in_database(Summary.objects.get)).text == "They want X."


async def test_it_is_not_tried_for_ever(runtime: EngineRuntime, owner: Member) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=(LONG * 2,) * 4))
    scripted.limits.append(Limit(tokens=10))
    turn = await asked(runtime, owner, conversation)
    assert turn.state == Turn.State.FAILED
    assert len(scripted.requests) <= len(AFTER_REFUSALS) + 1
    sizes = [count_tokens(request) for request in scripted.requests]
    assert sizes == sorted(set(sizes), reverse=True)


def test_less_is_tried_each_time_and_at_last_a_tenth() -> None:
    model = ChosenModel(kind="openai", name="m", account=ACCOUNT)
    room = 1_000_000
    for share in AFTER_REFUSALS:
        room = reduce_room(model, room, share, None)
    assert 90_000 < room < 120_000
    assert reduce_room(model, 500_000, 0.7, 128_000) == 128_000 - 8_192
    assert reduce_room(model, 100_000, 0.7, 128_000) == 70_000


def test_what_a_provider_published_of_its_models_is_known(owner: Member) -> None:
    """An admin's word counts more, and what nobody published stays unknown."""
    model = ChosenModel(kind="openai", name="gpt-6-sol", account=ACCOUNT)
    assert calculate_room(model) == 922_000 - 8_192
    said = ChatModel(name="gpt-6-sol", context_tokens=128_000)
    assert calculate_room(replace(model, facts=said)) == 128_000 - 8_192
    assert calculate_room(replace(model, facts=ChatModel(name="gpt-6-sol"))) == 922_000 - 8_192
    assert calculate_room(replace(model, name="other")) is None
    offered = {name for models in DEFAULT_MODELS.values() for name in models}
    assert CONTEXT_TOKENS.keys() <= offered


def test_the_gauge_has_a_percentage_where_the_size_is_known(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    conversation = long_chat(owner)
    Conversation.objects.filter(pk=conversation.pk).update(model="openai:gpt-6-sol")
    conversation.refresh_from_db()
    turn = Turn.objects.filter(conversation=conversation).latest("created_at")
    Step.objects.create(turn=turn, number=1, state=Step.State.DONE, input_tokens=461_000)
    assert load_gauge(conversation).percent == 50
