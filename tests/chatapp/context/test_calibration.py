"""What a provider counted corrects what is estimated here."""

import pytest

from chatapp.context.calibration import UNCALIBRATED, Calibration
from chatapp.context.fitting import calculate_room
from chatapp.context.request_facts import load_request_facts
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ChatModel, Member, Summary, Turn
from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.account import Account
from chatapp.providers.estimate import count_tokens
from chatapp.providers.events import Finished, TextDelta, Usage
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import text
from tests.turns import rows

from .test_fitting import asked, long_chat, small

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
__all__ = ["small"]


@pytest.mark.parametrize(
    ("estimated", "counted", "tokens", "found"),
    [
        (0, 0, 5_000, 5_000),
        # Too low by half: so is all that follows.
        (1_000, 2_000, 5_000, 2_500),
        # Too high by 500: what follows may be as many tokens as estimated.
        (1_500, 1_000, 5_000, 5_500),
        (1_500, 1_000, 500, 750),
        (1_000, 1_000, 5_000, 5_000),
        # Not of the same text.
        (1_000, 1, 5_000, 5_000),
        (1_000, 90_000, 5_000, 5_000),
    ],
)
def test_a_size_is_turned_into_an_estimate(
    estimated: int, counted: int, tokens: int, found: int
) -> None:
    assert Calibration(estimated, counted).to_estimate(tokens) == found


def test_the_room_of_a_model_is_by_our_estimate() -> None:
    facts = ChatModel(name="m", context_tokens=3_000, asked_tokens=200)
    model = ChosenModel(kind="openai", name="m", account=Account(names=scripted.NAMES), facts=facts)
    assert calculate_room(model) == 2_800
    assert calculate_room(model, Calibration(1_000, 2_000)) == 1_400
    assert calculate_room(model, Calibration(1_500, 1_000)) == 3_300


@pytest.mark.parametrize("is_counted", [True, False])
async def test_a_chat_that_fits_by_its_providers_count_is_not_shortened(
    runtime: EngineRuntime, owner: Member, small: ChatModel, is_counted: bool
) -> None:
    conversation = await in_database(long_chat, owner)
    told = [Usage(input_tokens=200, output_tokens=5)] if is_counted else []
    scripted.scenes.append([TextDelta(text="Fine."), *told, Finished(reason="stop")])
    turn = await asked(runtime, owner, conversation)
    first = count_tokens(scripted.requests[0])
    assert 430 < first < 480, "so the provider counts some 250 less"
    found = (await in_database(load_request_facts, turn)).calibration
    assert found == (Calibration(first, 200) if is_counted else UNCALIBRATED)

    def make_longer() -> None:
        oldest = Turn.objects.filter(conversation=conversation).earliest("question__created_seq")
        rows.said(oldest, "word " * 2_150)

    await in_database(make_longer)
    scripted.scenes += [text("Notes."), text("Fine.")]
    await asked(runtime, owner, conversation)
    assert await in_database(Summary.objects.exists) is not is_counted
    if is_counted:
        assert 2_800 < count_tokens(scripted.requests[1]) < 3_030
