"""Modules that do not connect to services do not import the MCP SDK, which takes most of a
second."""

import os
import subprocess
import sys
import threading
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest

from mcpconfig.operations import lazy, tools
from mcpconfig.values.lazy_module import LazyModule, load

ROOT = Path(__file__).resolve().parents[3]
SDKS = {"anthropic", "boto3", "botocore", "google.genai", "openai"}
HEAVY = {
    "rule_engine",
    "mcp",
    "mcp_types",
    "pydantic",
    "starlette",
    "mcpconfig.session.client",
} | SDKS
LOADED = """
import importlib, sys, django.core.checks
django.setup()
importlib.import_module(sys.argv[1])
django.core.checks.run_checks(tags=["security"])
print(*sys.modules)
"""


def loaded_by(module: str, place: Path) -> set[str]:
    settings = {"DJANGO_SETTINGS_MODULE": "chatapp.settings", "VAR_DIR": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **settings},
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "chatapp.urls",
        "chatapp.management.commands.approvals",
        "chatapp.management.commands.chat",
        "chatapp.management.commands.doctor",
        "mcpconfig.management.commands.mcp",
    ],
)
def test_it_loads_without_the_sdk(module: str, tmp_path: Path) -> None:
    loaded = loaded_by(module, tmp_path)
    assert module in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize(
    "module", ["chatapp.asgi", "chatapp.urls", "chatapp.management.commands.serve"]
)
def test_a_server_starts_without_the_sdk_and_the_parser_of_conditions(
    module: str, tmp_path: Path
) -> None:
    """Both take a third of a second, which everyone who starts a server would wait for. The
    libraries of encryption, of tool inputs and of passkeys and sign-in providers are a quarter of
    its memory."""
    loaded = loaded_by(module, tmp_path)
    assert module in loaded
    heavy = {"mcp", "mcp_types", "rule_engine", "mcpconfig.session.client"}
    libraries = {"cryptography", "fido2", "jwt", "pydantic", "requests"}
    assert loaded & (SDKS | heavy | libraries) == set()


async def test_a_lazy_module_can_be_loaded_beside_the_event_loop() -> None:
    threads = []

    class Watched(MetaPathFinder):
        def find_spec(self, name: str, *_args: Any) -> None:
            if name == "wave":
                threads.append(threading.current_thread())

    sys.modules.pop("wave", None)
    sys.meta_path.insert(0, watching := Watched())
    try:
        await load(LazyModule("wave"))
    finally:
        sys.meta_path.remove(watching)
    assert "wave" in sys.modules
    assert len(threads) == 1 and threads[0] is not threading.current_thread()


def test_the_sdk_is_seen_where_it_is_loaded(tmp_path: Path) -> None:
    assert loaded_by("mcpconfig.operations.tools", tmp_path) >= {
        "mcp",
        "mcp_types",
        "mcpconfig.session.client",
    }


def test_what_stands_for_the_operations_has_them() -> None:
    assert lazy.operations.call_tool is tools.call_tool
    with pytest.raises(AttributeError):
        lazy.operations.nothing  # type: ignore[attr-defined]  # noqa: B018
