"""`manage.py policy classify FILE` as other programs use it."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def classified(path: Path, *lines: Any) -> list[dict[str, Any]]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    out = StringIO()
    call_command("policy", "classify", str(path), stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.jsonl"


def test_every_line_is_answered_in_order(path: Path) -> None:
    answers = classified(
        path,
        {"name": "delete_memo", "description": "", "inputSchema": {}, "annotations": None},
        "",
        {"name": "list_memos"},
    )
    assert answers == [
        {"name": "delete_memo", "level": "high", "reasons": ["Its name says that it deletes."]},
        {"name": "list_memos", "level": "low", "reasons": ["Its name says that it only reads."]},
    ]


def test_the_schema_the_hints_and_the_trust_are_taken_into_account(path: Path) -> None:
    hints = {"readOnlyHint": True}
    sql = {"properties": {"sql": {"type": "string"}}}
    answers = classified(
        path,
        {"name": "read_rows", "inputSchema": sql},
        {"name": "frobnicate", "annotations": hints, "trusted": False},
        {"name": "frobnicate", "annotations": hints, "trusted": True},
        {"name": "list_memos", "inputSchema": None},
        {"name": "list_memos", "description": "Deletes all memos."},
    )
    assert [answer["level"] for answer in answers] == ["high", "medium", "low", "high", "high"]


@pytest.mark.parametrize("line", ["{", "[]", '{"name": ""}', '{"name": 5}', "{}", "[" * 100_000])
def test_a_bad_line_fails_with_its_number(path: Path, line: str) -> None:
    with pytest.raises(CommandError, match=r"^Line 2: It .*\.$"):
        classified(path, {"name": "list_memos"}, line)


def test_a_file_that_is_not_there_fails_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("policy", "classify", str(tmp_path / "missing"))


@pytest.mark.slow
def test_the_exit_codes_are_those_of_the_contract(path: Path) -> None:
    path.write_text("{", encoding="utf-8")
    failed = subprocess.run(
        [sys.executable, "manage.py", "policy", "classify", str(path)],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Line 1" in failed.stderr and "Traceback" not in failed.stderr
    misused = subprocess.run(
        [sys.executable, "manage.py", "policy"], capture_output=True, text=True, timeout=50
    )
    assert misused.returncode == 2
