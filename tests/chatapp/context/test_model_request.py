"""What a row says of a model, in what the model is asked: prompt, parameters, pictures, tools."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from chatapp.context import attachments
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Attachment, ChatModel, Member, ModelProvider, Turn
from chatapp.providers.request import Parameters, UserMessage
from chatapp.server.database import in_database
from mcpconfig.models import Service
from mcpconfig.values.results import ResourceContents, ResourcePart
from tests import scripted
from tests.peers.reading_room import PNG
from tests.turns import rows
from tests.turns.acts import read_notices, wait_for_rest

pytestmark = pytest.mark.django_db(transaction=True)
Setup = Callable[..., None]


@pytest.fixture
def described(owner: Member) -> Setup:
    """The scripted model has a row with these facts. Its account is nobody's: no key is needed."""

    def describe(**facts: Any) -> None:
        provider = ModelProvider.objects.create(
            slug="scripted", kind="scripted", label="Scripted", key_place="none"
        )
        ChatModel.objects.create(provider=provider, name="model", **facts)

    return describe


def picture(owner: Member) -> Attachment:
    held = ResourcePart(uri="a://b", mime_type="image/png", blob=PNG)
    contents = ResourceContents(parts=(held,), was_cut=False)
    return attachments.store_draft(owner, rows.service(), "a://b", "Letter", contents)


async def asked(runtime: EngineRuntime, owner: Member, *files: Attachment) -> Turn:
    ids = [file.pk for file in files]
    turn = await in_database(
        lambda: intake.receive(
            owner, None, text="What is this?", model=scripted.MODEL, attachments=ids
        )
    )
    return await wait_for_rest(runtime, turn)


async def test_a_model_without_a_row_is_asked_as_it_is(runtime: EngineRuntime, turn: Turn) -> None:
    await wait_for_rest(runtime, turn)
    (request,) = scripted.requests
    assert (request.model, request.parameters) == ("model", Parameters())
    assert request.cache_key == str(turn.conversation_id)


async def test_a_row_adds_its_prompt_and_parameters(
    runtime: EngineRuntime, turn: Turn, described: Setup
) -> None:
    await in_database(
        lambda: described(
            system_prompt="Answer in rhyme.", effort="high", temperature=0.2, asked_tokens=77
        )
    )
    await wait_for_rest(runtime, turn)
    (request,) = scripted.requests
    assert request.parameters == Parameters(output_tokens=77, temperature=0.2, effort="high")
    base, _, rest_of_it = request.system.partition("\n\n")
    assert base.startswith("You are the assistant")
    assert rest_of_it.startswith("Answer in rhyme.")


async def test_a_model_without_tools_is_offered_none(
    runtime: EngineRuntime, turn: Turn, notebook: Service, described: Setup
) -> None:
    await in_database(lambda: described(takes_tools=False))
    await wait_for_rest(runtime, turn)
    assert scripted.requests[0].tools == ()


async def test_a_right_that_was_taken_away_meanwhile_ends_the_turn_in_words(
    runtime: EngineRuntime, turn: Turn, described: Setup
) -> None:
    """Accepted is not asked: a worker looks again before it sends what somebody wrote."""
    await in_database(lambda: described(audience="groups"))
    ended = await wait_for_rest(runtime, turn)
    assert ended.state == Turn.State.FAILED
    assert "There is no model" in " ".join(await in_database(read_notices, turn))
    assert scripted.requests == []


# --- a picture for a model without eyes --------------------------------------------------------
async def test_a_picture_for_a_model_without_eyes_is_left_out_with_a_word(
    runtime: EngineRuntime, owner: Member, described: Setup
) -> None:
    await in_database(lambda: described(takes_pictures=False))
    ended = await asked(runtime, owner, await in_database(picture, owner))
    (request,) = scripted.requests
    (question,) = request.history
    assert isinstance(question, UserMessage)
    assert question.media == ()
    assert "[Left out, because this model cannot take it: " in question.text
    (notice,) = await in_database(read_notices, ended)
    assert "It does not accept images" in notice
    assert ended.state == Turn.State.DONE


@pytest.mark.parametrize("takes_pictures", [True, None])
async def test_a_model_that_may_have_eyes_gets_the_picture(
    runtime: EngineRuntime, owner: Member, described: Setup, takes_pictures: bool | None
) -> None:
    await in_database(lambda: described(takes_pictures=takes_pictures))
    ended = await asked(runtime, owner, await in_database(picture, owner))
    (question,) = scripted.requests[0].history
    assert isinstance(question, UserMessage)
    assert base64.b64decode(question.media[0].base64) == PNG
    assert await in_database(read_notices, ended) == []
