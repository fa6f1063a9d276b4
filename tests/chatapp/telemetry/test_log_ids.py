"""Log entries as JSON, with the ids of what they are about."""

import asyncio
import io
import json
import logging
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from chatapp import asgi
from chatapp.demo import listener
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import Member, Note, Part, Turn
from chatapp.server.database import in_database
from chatapp.server.log_filters import DepartureFilter, OutageFilter
from chatapp.telemetry import log_ids, metrics
from chatapp.telemetry.http_requests import is_request_id
from chatapp.telemetry.log_ids import FIELDS, IdsFilter, JsonLines
from mcpconfig.models import Service
from mcpconfig.operations.lazy import operations
from tests import scripted
from tests.conftest import signed_in
from tests.scripted import calls, text
from tests.turns.acts import READ, get_only_call, wait_for_rest

from .otlp_receiver import Receiver
from .test_traces import receiver

__all__ = ["receiver"]

CANARY = "canary-0f3a77"
pytestmark = pytest.mark.django_db(transaction=True)


class Lines:
    """A handler like that of the console with LOG_FORMAT=json."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(JsonLines())
        for each in (OutageFilter(), DepartureFilter(), IdsFilter()):
            self.handler.addFilter(each)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    made, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(made.handler)
    root.setLevel(logging.INFO)
    yield made
    root.removeHandler(made.handler)
    root.setLevel(level)


def test_an_entry_is_one_line_with_known_fields_only(lines: Lines) -> None:
    try:
        raise ValueError("of\nthree\nlines")
    except ValueError:
        more = {"request": "whole request"}
        logging.getLogger("a.b").exception("Two\nlines: %s", "ü", extra=more)
    (entry,) = lines.entries
    assert lines.text.count("\n") == 1
    assert list(entry) == [name for name in FIELDS if name in entry]
    assert (entry["level"], entry["logger"]) == ("ERROR", "a.b")
    assert entry["message"] == "Two\nlines: ü"
    assert "ValueError: of\nthree\nlines" in entry["exception"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", entry["time"])
    assert "whole request" not in lines.text


def test_an_entry_outside_of_requests_and_turns_has_no_ids(lines: Lines) -> None:
    logging.getLogger("a").info("plain")
    assert set(lines.entries[0]) == {"time", "level", "logger", "message"}


def test_ids_end_with_their_block(lines: Lines) -> None:
    turn, call = uuid.uuid4(), uuid.uuid4()
    with log_ids.use_turn(turn), log_ids.use_call(call):
        logging.getLogger("a").info("inside")
    logging.getLogger("a").info("outside")
    inside, outside = lines.entries
    assert (inside["turn_id"], inside["call_id"]) == (str(turn), str(call))
    assert "turn_id" not in outside and "call_id" not in outside


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ("0d6085dc10ee47d292e3d59c12feac1f", True),
        ("2b0f7a9e-8a52-4a63-9b2a-6a1ec1a5e3f0", True),
        ("Root=1-67891233", False),
        ("short", False),
        ("a" * 101, False),
        ("abcdefgh\r\nSet-Cookie: a=b", False),
        ('abcdefgh", "level": "', False),
        ("-abcdefgh", False),
        ("abcdefghé", False),
    ],
)
def test_only_plain_request_ids_are_taken(text: str, is_good: bool) -> None:
    assert is_request_id(text) is is_good


async def ask(path: str, *headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    """Send one request to the whole application, as the server does; return the headers."""
    sent: list[Any] = []

    coming = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return coming.pop() if coming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 6740),
    }
    await asgi.application(scope, receive, send)
    return dict(sent[0]["headers"])


async def test_a_request_and_its_entries_have_the_id_of_the_proxy(lines: Lines) -> None:
    answered = await ask("/nowhere", (b"x-request-id", b"from-the-proxy-1"))
    assert answered[b"x-request-id"] == b"from-the-proxy-1"
    found = [entry for entry in lines.entries if entry["logger"] == "django.request"]
    assert [entry["request_id"] for entry in found] == ["from-the-proxy-1"]


async def test_a_request_without_a_good_id_gets_one(lines: Lines) -> None:
    ids = [
        (await ask("/nowhere"))[b"x-request-id"],
        (await ask("/nowhere", (b"x-request-id", b"<script>alert(1)</script>")))[b"x-request-id"],
    ]
    assert all(re.fullmatch(rb"[0-9a-f]{32}", each) for each in ids)
    assert len(set(ids)) == 2
    assert "script" not in lines.text


async def test_the_entries_of_a_person_have_their_number(lines: Lines, owner: Member) -> None:
    client = await in_database(signed_in, owner)
    cookie = "; ".join(f"{name}={value.value}" for name, value in client.cookies.items())
    await ask(f"/c/{uuid.uuid4()}/", (b"cookie", cookie.encode()))
    (entry,) = [entry for entry in lines.entries if entry["logger"] == "django.request"]
    assert entry["person_id"] == owner.pk
    assert owner.username not in lines.text


async def test_what_a_request_starts_does_not_keep_its_ids(
    lines: Lines, runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append([RuntimeError("a bug")])

    async def wake_in_a_request() -> None:
        log_ids.begin_request("of-another-request")
        logging.getLogger("a").info("in the request")
        runtime.engine.wake(turn.pk)

    await asyncio.create_task(wake_in_a_request())
    assert lines.entries[0]["request_id"] == "of-another-request"
    await wait_for_rest(runtime, turn)
    (entry,) = [entry for entry in lines.entries if "nobody foresaw" in entry["message"]]
    assert entry["turn_id"] == str(turn.pk)
    assert "request_id" not in entry


async def test_entries_about_a_call_have_its_turn_and_its_id(
    lines: Lines,
    runtime: EngineRuntime,
    turn: Turn,
    notebook: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_args: Any, **_more: Any) -> Any:
        raise RuntimeError("a planted bug")

    monkeypatch.setattr(operations, "call_tool", fail, raising=False)
    scripted.scenes += [calls(READ), text("Well.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    (entry,) = [entry for entry in lines.entries if "nobody foresaw" in entry["message"]]
    assert (entry["turn_id"], entry["call_id"]) == (str(turn.pk), str(call.pk))


async def test_no_text_and_no_secret_leaves_through_metrics_logs_or_spans(
    lines: Lines, receiver: Receiver, turn: Turn, notebook: Service
) -> None:
    def plant() -> None:
        Note.objects.create(title=CANARY, text=f"A secret note: {CANARY}")
        Part.objects.filter(message=turn.question_id).update(text=CANARY)

    await in_database(plant)
    arguments = json.dumps({"title": CANARY})
    scripted.scenes += [
        calls(("notebook_read_note", arguments), ("notebook_delete_note", '{"nothing": 1}')),
        text(f"It says {CANARY}"),
    ]
    opened = await open_engine_runtime(sweeps=False)
    done = await wait_for_rest(opened, turn)
    await close_engine_runtime(opened)
    assert done.state == Turn.State.DONE
    secret = (await listener.find_address()).bearer
    spans = b"".join(receiver.bodies)
    assert receiver.named("execute_tool") and receiver.named("tools/call")
    for found in (metrics.render([]), lines.text.encode(), spans):
        assert CANARY.encode() not in found
        assert secret.encode() not in found
        assert b"owner" not in found  # the person's name
