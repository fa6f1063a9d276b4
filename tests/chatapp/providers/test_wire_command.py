"""The model server as a program of its own, as browser and kill tests use it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from chatapp.providers.events import ProviderError
from tests.wire.formats import FORMATS

from .accounts import forget_environment, point_at
from .stories import calls_of, said_by, text_of

SCRIPT = [
    {"text": "Slowly.", "delay_ms": 1, "chunk": 2},
    {"tools": [{"name": "notes_write", "arguments": {"a": 1}}]},
    {"status": 429, "error": {"message": "Slow down"}, "headers": {"retry-after": "3"}},
]


async def test_a_script_file_is_played_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.wire", "--script", script, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
            forget_environment(monkeypatch)
            point_at(monkeypatch, line.split()[-1])
            assert text_of(await said_by("openai")) == "Slowly."
            assert calls_of(await said_by("openai-chat"))[0][2:] == ("notes_write", '{"a": 1}')
            with pytest.raises(ProviderError) as raised:
                await said_by("openai")
            assert raised.value.retry_after == 3
            for form in FORMATS:
                assert "no more answers" in text_of(await said_by(form))
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 5)
