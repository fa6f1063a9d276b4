"""A real llama.cpp server, by OPENAI_BASE_URL alone: its list, its stream and its tool calls."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, Turn
from chatapp.providers.access.model_choice import (
    choose_model,
    find_default_model,
    list_offered_models,
)
from chatapp.providers.events import ModelEvent, ProviderError, ToolCallReady, Usage
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    ModelRequest,
    ToolOutcome,
    ToolSpec,
)
from chatapp.server.database import in_database
from tests.chatapp.providers.accounts import forget_environment
from tests.chatapp.providers.stories import HELLO, a_request, finish_of, said_by, text_of
from tests.peers.installing import FOLDER, python_program
from tests.turns.acts import read_text, wait_for_rest

pytestmark = [
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
]
TOOL, ARGUMENTS = "add", '{"a": 2, "b": 3}'
NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
ADD = ToolSpec(
    name=TOOL, description="Adds.", input_schema={"type": "object", "properties": NUMBERS}
)
MODEL = "openai-chat:pairs.gguf"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with weights that were made for this test."""
    python = python_program("llama", "python")
    folder = tmp_path_factory.mktemp("llama")
    weights = folder / "pairs.gguf"
    subprocess.run(
        [str(python), str(FOLDER.parent / "pair_weights.py"), str(weights), TOOL, ARGUMENTS],
        check=True,
        timeout=300,
    )
    programs = next(python.parents[1].glob("lib/python*/site-packages/skulk_llama_server_*/bin"))
    program = programs / "llama-server"
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    size = ["-ngl", "0", "-t", "1", "-n", "64"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [str(program), "-m", weights.name, *place, "--jinja", *size],
            cwd=folder,
            env={**os.environ, "LD_LIBRARY_PATH": str(programs)},
            stdout=log,
            stderr=log,
        )
    try:
        wait_for_health(f"http://127.0.0.1:{port}/health", server, folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)


def wait_for_health(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text()[-2_000:]
        try:
            if httpx2.get(address, timeout=5).is_success:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.1)
    pytest.fail(f"It did not start: {log.read_text()[-2_000:]}")


@pytest.fixture
def by_address(llama: str, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    forget_environment(monkeypatch)
    settings.DEFAULT_MODEL = ""
    monkeypatch.setenv("OPENAI_BASE_URL", llama)


def test_its_model_is_the_default_and_openais_are_not_offered(
    by_address: None, owner: Member
) -> None:
    assert find_default_model(owner) == MODEL
    assert [model.id for model in list_offered_models(owner)][0] == MODEL
    assert not any("gpt" in model.id for model in list_offered_models(owner))
    assert choose_model(MODEL, owner).context_tokens == 16_384


async def ask(request: ModelRequest) -> list[ModelEvent]:
    """Return the events of an answer. This server may close a connection that is used again at the
    same moment; then it is asked once more, as the engine does."""
    try:
        return await said_by("openai-chat", request)
    except ProviderError as error:
        if error.kind != "network":
            raise
    return await said_by("openai-chat", request)


async def test_it_calls_a_tool_and_answers_after_the_result(by_address: None) -> None:
    asked = await ask(a_request(HELLO, (ADD,)))
    (call,) = [event for event in asked if isinstance(event, ToolCallReady)]
    assert (call.name, call.arguments) == (TOOL, ARGUMENTS)
    assert finish_of(asked) == "tool_calls"
    said = AssistantMessage(
        parts=(AskedTool(call_id=call.call_id, name=TOOL, arguments=ARGUMENTS),)
    )
    outcome = ToolOutcome(call_id=call.call_id, name=TOOL, text="5")
    answered = await ask(a_request((*HELLO, said, outcome), (ADD,)))
    assert (text_of(answered), finish_of(answered)) == ("The sum is 5.", "stop")
    assert any(isinstance(event, Usage) and event.input_tokens for event in answered)


async def test_the_first_message_of_a_chat_is_answered(
    by_address: None, runtime: EngineRuntime, owner: Member
) -> None:
    def begin() -> Turn:
        model = find_default_model(owner)
        return intake.receive(owner, None, text="2 + 3?", model=model, tools="off")

    turn = await in_database(begin)
    await wait_for_rest(runtime, turn)
    assert await in_database(read_text, turn) == "The sum is 5."
