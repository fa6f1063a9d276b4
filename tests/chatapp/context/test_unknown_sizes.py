"""Models whose size nobody said: what their provider finds too long is sent again with less."""

from dataclasses import replace

import pytest

from chatapp.models import ChatModel, Conversation, Member, Step, Summary, Turn
from chatapp.providers.account import Account
from chatapp.providers.default_models import CONTEXT_TOKENS, DEFAULT_MODELS
from chatapp.providers.estimate import tokens_of
from chatapp.storage import in_database
from chatapp.turns.fitting import AFTER_REFUSALS, room_after_refusal, room_of
from chatapp.turns.gauge import gauge_of
from chatapp.turns.model_choice import ChosenModel
from chatapp.turns.workplace import Workplace
from tests import scripted
from tests.scripted import Limit, text

from .acts import notices
from .test_fitting import LONG, WORDY, asked, long_chat

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
SHORT = (
    "2 results of tools were shortened for the model, so that this chat fits. Here they are "
    "complete."
)
NAMING = "This model's maximum context length is 3,000 tokens. However, you asked for 12,000."
ACCOUNT = Account(names=scripted.NAMES)


async def test_a_limit_that_the_provider_names_is_kept_at_once(
    workplace: Workplace, owner: Member
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=(LONG * 4, LONG * 3)))
    scripted.limits.append(Limit(tokens=4_000, complaint=NAMING.replace("3,", "4,")))
    scripted.scenes.append(text("Fine."))
    turn = await asked(workplace, owner, conversation)
    assert (turn.state, await in_database(notices, turn)) == (Turn.State.DONE, [SHORT])
    first, second = map(tokens_of, scripted.requests)
    assert first > 11_000
    assert second < 4_000


@pytest.mark.parametrize("complaint", [NAMING, "The prompt is too long"])
async def test_a_chat_of_twelve_thousand_tokens_goes_on_with_a_model_that_reads_three(
    workplace: Workplace, owner: Member, complaint: str
) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=("",) * 15, words=WORDY))
    scripted.limits.append(Limit(tokens=3_000, complaint=complaint))
    scripted.scenes += [text("They want X."), text("Fine.")]
    turn = await asked(workplace, owner, conversation)
    assert turn.state == Turn.State.DONE
    assert tokens_of(scripted.requests[0]) > 12_000
    assert tokens_of(scripted.requests[-1]) <= 3_000
    assert (await in_database(Summary.objects.get)).text == "They want X."


async def test_it_is_not_tried_for_ever(workplace: Workplace, owner: Member) -> None:
    conversation = await in_database(lambda: long_chat(owner, results=(LONG * 2,) * 4))
    scripted.limits.append(Limit(tokens=10))
    turn = await asked(workplace, owner, conversation)
    assert turn.state == Turn.State.FAILED
    assert len(scripted.requests) <= len(AFTER_REFUSALS) + 1
    sizes = [tokens_of(request) for request in scripted.requests]
    assert sizes == sorted(set(sizes), reverse=True)


def test_less_is_tried_each_time_and_at_last_a_tenth() -> None:
    model = ChosenModel(kind="openai", name="m", account=ACCOUNT)
    room = 1_000_000
    for share in AFTER_REFUSALS:
        room = room_after_refusal(model, room, share, None)
    assert 90_000 < room < 120_000
    assert room_after_refusal(model, 500_000, 0.7, 128_000) == 128_000 - 8_192
    assert room_after_refusal(model, 100_000, 0.7, 128_000) == 70_000


def test_what_a_provider_published_of_its_models_is_known(owner: Member) -> None:
    """An admin's word counts more, and what nobody published stays unknown."""
    model = ChosenModel(kind="openai", name="gpt-6-sol", account=ACCOUNT)
    assert room_of(model) == 922_000 - 8_192
    said = ChatModel(name="gpt-6-sol", context_tokens=128_000)
    assert room_of(replace(model, facts=said)) == 128_000 - 8_192
    assert room_of(replace(model, facts=ChatModel(name="gpt-6-sol"))) == 922_000 - 8_192
    assert room_of(replace(model, name="other")) is None
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
    assert gauge_of(conversation).percent == 50
