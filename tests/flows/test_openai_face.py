"""OpenAI's own client before a real server: broken lines, killed processes and approvals."""

import contextlib
import json
import signal
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI

from .journey import installation
from .server import Installation, Server, eventually
from .story import World, build_story, last_word, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
MODEL = "openai:gpt-5"


class Program:
    def __init__(self, installation: Installation, server: Server) -> None:
        words = ["token", "create", "Job", "--scope", "chat", "--json"]
        token = json.loads(installation.manage(*words))["token"]
        self.client = OpenAI(
            base_url=f"{server.address}/v1", api_key=token, max_retries=0, timeout=60
        )

    def ask(self, text: str, **more: Any) -> Any:
        messages: Any = [{"role": "user", "content": text}]
        return self.client.chat.completions.create(model=MODEL, messages=messages, **more)

    def answer(self, text: str) -> tuple[str, dict[str, Any]]:
        told = self.ask(text)
        return told.choices[0].message.content, told.model_extra["countersign"]

    def begin(self, text: str, pieces: int) -> Any:
        """A stream of which so many pieces with words have come."""
        stream, words = self.ask(text, stream=True), 0
        while words < pieces:
            chunk = next(stream)
            words += bool(chunk.choices and chunk.choices[0].delta.content)
        return stream


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="module")
def home(
    tmp_path_factory: pytest.TempPathFactory, parties: World
) -> Iterator[tuple[Installation, Server, Program]]:
    with installation("sqlite", tmp_path_factory.mktemp("home"), parties) as made:
        server = made.server("first")
        server.start()
        yield made, server, Program(made, server)


@pytest.fixture
def name() -> str:
    return f"thing{uuid.uuid4().hex[:10]}"


def test_a_long_answer_comes_in_pieces_and_whole(home: Any, name: str) -> None:
    _, _, program = home
    chunks = list(program.ask(f"Tell {name}", stream=True))
    pieces = [each.choices[0].delta.content or "" for each in chunks if each.choices]
    assert "".join(pieces) == build_story(name)
    assert sum(map(bool, pieces)) > 5


def test_a_program_that_goes_away_stops_nothing_and_may_come_back(
    home: Any, parties: World, name: str
) -> None:
    _, _, program = home
    program.begin(f"Tell {name}", 3).close()
    said, standing = program.answer(f"Tell {name}")
    assert (said, standing["state"]) == (build_story(name), "done")
    assert parties.model.asked_about(name) == 1


def test_a_server_killed_in_a_stream_gives_the_whole_answer_to_who_asks_again(
    home: Any, name: str
) -> None:
    _, server, program = home
    stream = program.begin(f"Tell {name}", 3)
    server.send(signal.SIGKILL)
    with contextlib.suppress(openai.APIError, httpx2.HTTPError):
        assert not list(stream), "The line was not cut."
    server.end()
    server.start()
    said, standing = program.answer(f"Tell {name}")
    assert (said, standing["state"]) == (build_story(name), "done")


def test_what_a_person_approves_elsewhere_runs_once(home: Any, parties: World, name: str) -> None:
    made, _, program = home
    said, standing = program.answer(f"Delete {name}")
    (waits,) = standing["waits_for"]
    assert (standing["state"], waits["kind"]) == ("waiting", "approval")
    assert waits["url"] in said and parties.executions(name) == 0
    made.manage("approvals", "approve", waits["id"])
    eventually(lambda: program.answer(f"Delete {name}")[1]["state"] == "done", "the end")
    assert parties.executions(name) == 1


def test_a_denied_call_is_told_to_the_model_and_the_turn_ends(
    home: Any, parties: World, name: str
) -> None:
    made, _, program = home
    _, standing = program.answer(f"Delete {name}")
    made.manage("approvals", "deny", standing["waits_for"][0]["id"], "--reason", "Keep it.")
    said, standing = program.answer(f"Delete {name}")
    assert said.endswith(last_word(name))
    assert standing["tools"][0]["state"] == "denied" and parties.executions(name) == 0
