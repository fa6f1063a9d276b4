"""Pictures that a model makes: stored, shown, kept across reloads and crashes, and never lost
without a word."""

import asyncio
import base64
from typing import Any

import pytest

from chatapp.context.history import build_history
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import Attachment, Conversation, File, Member, Turn
from chatapp.providers.events import Finished, PictureMade, TextDelta
from chatapp.providers.request import AssistantMessage, SaidText
from chatapp.server.database import in_database
from tests import scripted
from tests.chatapp.providers.accounts import forget_environment, point_at
from tests.chatapp.providers.stories import a_request, said_by, text_of
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.reading_room import PNG
from tests.scripted import Pause
from tests.turns.acts import read_notices, read_text, wait_for_rest
from tests.turns.tabs import assert_shown_live
from tests.wire.script import Answer
from tests.wire.server import WireServer, wire_server

pytestmark = pytest.mark.django_db(transaction=True)
DATA = base64.b64encode(PNG).decode()
OPAQUE = {"provider": "google", "data": {"thought_signature": "c2ln"}}
END = Finished(reason="stop")


def made(data: bytes = PNG, **more: Any) -> PictureMade:
    return PictureMade(base64=base64.b64encode(data).decode(), **more)


def get(person: Member, path: str) -> Any:
    return signed_in(person).get(path)


def page(person: Member, turn: Turn) -> Element:
    return parse(get(person, f"/c/{turn.conversation_id}/").content.decode())


def pictures(element: Element) -> list[Element]:
    shown = [each for each in element.all("img") if "src" in each]
    return [each for each in shown if "/attachments/" in each["src"]]


async def test_a_picture_is_shown_live_and_after_a_reload_between_the_texts(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    words = "A red square\non white"
    scripted.scenes.append(
        [TextDelta(text="Here:"), made(description=words), TextDelta(text="Done."), END]
    )
    await assert_shown_live(runtime, turn)
    found = await in_database(page, owner, turn)
    (picture,) = pictures(found)
    assert picture["alt"] == "A red square on white"
    answer = await in_database(get, owner, picture["src"])
    assert (answer["Content-Type"], answer.content) == ("image/png", PNG)
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]
    saved = await in_database(get, owner, f"{picture['src']}?save")
    assert 'filename="Picture 1.png"' in saved["Content-Disposition"]


async def test_a_picture_is_its_owners_alone(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append([made(), END])
    await wait_for_rest(runtime, turn)
    stranger = await in_database(Member.objects.create_user, "stranger", password="x" * 12)
    kept = await in_database(Attachment.objects.get)
    for path in f"/attachments/{kept.pk}/", f"/attachments/{kept.pk}/content/0":
        assert (await in_database(get, stranger, path)).status_code == 404
    await in_database(Conversation.objects.all().delete)
    assert not await in_database(File.objects.exists)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a PNG, JPEG, GIF or WebP"),
        (b"%PDF-1.7", "a PDF instead of an image"),
        (b"BM" + bytes(60), "not a PNG"),
        (b"", "not a PNG"),
        (PNG + bytes(4_000), "an image that is too large to show (3.9 KB)."),
    ],
)
async def test_what_cannot_be_shown_is_told(
    runtime: EngineRuntime, turn: Turn, settings: Any, data: bytes, sentence: str
) -> None:
    settings.FILE_MAX_BYTES = 4_000
    scripted.scenes.append([TextDelta(text="Here:"), made(data), END])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    (notice,) = await in_database(read_notices, turn)
    assert sentence in notice
    assert await in_database(read_text, turn) == "Here:"
    assert not await in_database(Attachment.objects.exists)


async def test_base64_that_is_none_is_told(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes.append([PictureMade(base64="https://x.example/a.png"), END])
    await wait_for_rest(runtime, turn)
    assert "not a PNG" in (await in_database(read_notices, turn))[0]


async def test_too_many_pictures_are_told_once(
    runtime: EngineRuntime, turn: Turn, settings: Any
) -> None:
    settings.MESSAGE_MAX_FILES = 2
    scripted.scenes.append([*[made()] * 5, END])
    await wait_for_rest(runtime, turn)
    assert await in_database(Attachment.objects.count) == 2
    (notice,) = await in_database(read_notices, turn)
    assert "more than 2 images" in notice


async def test_a_worker_that_ends_in_the_middle_leaves_one_picture(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    pause = Pause()
    scripted.scenes += [[made(), TextDelta(text="Half"), pause], [made(), END]]
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await close_engine_runtime(runtime)
    again = await open_engine_runtime()
    try:
        await wait_for_rest(again, turn)
    finally:
        await close_engine_runtime(again)
    assert await in_database(Attachment.objects.count) == 1
    assert len(pictures(await in_database(page, owner, turn))) == 1


async def test_a_stopped_answer_keeps_its_pictures(runtime: EngineRuntime, turn: Turn) -> None:
    pause = Pause()
    scripted.scenes.append([made(), TextDelta(text="Half"), pause])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(intake.stop, turn.conversation)
    await wait_for_rest(runtime, turn)
    assert await in_database(Attachment.objects.count) == 1


# --- history -------------------------------------------------------------------------------------
async def test_a_picture_goes_back_to_its_model_and_is_named_to_others(
    runtime: EngineRuntime, turn: Turn, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.scenes.append([TextDelta(text="Here:"), made(opaque=OPAQUE), END])
    await wait_for_rest(runtime, turn)
    scripted.scenes.append([Pause(), END])  # the next answer does not begin
    following = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="Bluer.", model=scripted.MODEL)
    )
    history = await in_database(build_history, following)
    (answer,) = [item for item in history if isinstance(item, AssistantMessage)]
    said = answer.parts[-1]
    assert isinstance(said, SaidText)
    assert said.picture is not None
    assert (said.picture.base64, said.opaque) == (DATA, OPAQUE)
    async with wire_server() as wire:
        await said_by_each(wire, history, monkeypatch)
        bodies = {request.path.split("/")[-1]: request.body for request in wire.requests}
    gemini = bodies.pop("scripted:streamGenerateContent")["contents"][1]
    assert gemini["role"] == "model"
    assert "c2ln" in str(gemini)
    assert DATA in str(gemini).replace("-", "+").replace("_", "/")
    assert len(bodies) == 4
    for body in bodies.values():
        assert "You made this picture" in str(body)
        assert DATA not in str(body)


async def said_by_each(wire: WireServer, history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_environment(monkeypatch)
    point_at(monkeypatch, wire.url)
    for form in "openai", "openai-chat", "anthropic", "google", "bedrock":
        wire.play(Answer(text="fine"))
        assert text_of(await said_by(form, a_request(history, ()))) == "fine"
