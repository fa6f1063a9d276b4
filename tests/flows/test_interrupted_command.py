"""Ctrl-C in the middle of an answer: the command is gone at once and quietly, the turn is not."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.migrated import make_sqlite

from .model_server import answering
from .server import ROOT, Installation
from .story import Storyteller

pytestmark = pytest.mark.long


def test_an_interrupted_chat_is_quiet_and_its_turn_goes_on(tmp_path: Path) -> None:
    with answering(Storyteller()) as model:
        installation = Installation(
            tmp_path,
            DATABASE_URL=make_sqlite(tmp_path / "chat.sqlite3"),
            OPENAI_BASE_URL=model.url,
            DEFAULT_MODEL="openai-chat:scripted",
        )
        running = subprocess.Popen(
            [sys.executable, "manage.py", "chat", "Tell moon", "--json"],
            cwd=ROOT,
            env=installation.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stdout is not None
        while json.loads(running.stdout.readline())["type"] != "text":
            pass
        running.send_signal(signal.SIGINT)
        _out, err = running.communicate(timeout=30)
        assert (running.returncode, err) == (130, "")

        events = installation.manage("chat", "--continue", "--json").splitlines()
        assert json.loads(events[-1]) == {"type": "done", "reason": "complete"}
        told = "".join(json.loads(line).get("text", "") for line in events)
        assert "Paragraph 60 of the tale" in told
