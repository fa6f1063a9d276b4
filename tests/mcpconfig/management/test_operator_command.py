"""However a command of ours ends, it is with an exit code and words, and never with a traceback."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Error, Warning, register
from django.core.checks.registry import registry
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection

from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand
from mcpconfig.values.errors import OperationError
from tests.commands import database_at

Act = Callable[[], None]


class Acts(OperatorCommand):
    """A command that does what a test wants."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.act = act

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: object, **options: Any) -> None:
        self.act()


def ended(act: Act, *words: str) -> tuple[int, str, str]:
    """Exit code, output and complaints."""
    out, err = StringIO(), StringIO()
    try:
        call_command(Acts(act), *words, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def raises(error: BaseException) -> Act:
    def act() -> None:
        raise error

    return act


REFUSED = OperationError(kind="refused", message="Nothing answers.", hint="Start it.")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Failure("files", "It is gone.", "Look."), "files: It is gone.\n  Look.\n"),
        (Failure("files", "It is gone."), "files: It is gone.\n"),
        (REFUSED, "refused: Nothing answers.\n  Start it.\n"),
        (CommandError("No such app."), "failed: No such app.\n"),
        (ImproperlyConfigured("X is not set."), "configuration: X is not set.\n"),
        (PermissionError(13, "Permission denied", "/x"), "files: Permission denied: /x\n"),
        (ValueError("odd\nlines"), "internal: ValueError: odd\n"),
        (KeyError(), "internal: KeyError: KeyError\n"),
        (ExceptionGroup("many", [ValueError()]), "internal: ExceptionGroup: many"),
    ],
)
def test_every_error_ends_in_its_kind_and_a_sentence(error: Exception, said: str) -> None:
    code, out, err = ended(raises(error))
    assert (code, out) == (1, "")
    assert err.startswith(said)
    assert "Traceback" not in err


def test_with_json_the_failure_is_json_on_standard_output_too() -> None:
    code, out, err = ended(raises(REFUSED), "--json")
    assert code == 1
    assert json.loads(out) == {
        "error": {"kind": "refused", "message": "Nothing answers.", "hint": "Start it."}
    }
    assert err.startswith("refused: ")


def test_an_error_cannot_steer_the_terminal() -> None:
    _code, _out, err = ended(raises(Failure("x", "\x1b[2Jgone \u202e")))
    assert "\x1b" not in err
    assert "\u202e" not in err


def test_a_trace_is_shown_to_whoever_asks_for_it() -> None:
    with pytest.raises(ValueError, match="odd"):
        call_command(Acts(raises(ValueError("odd"))), "--traceback")


def test_an_interrupted_command_is_quiet() -> None:
    assert ended(raises(KeyboardInterrupt())) == (130, "", "")


def test_a_command_that_chose_its_exit_code_keeps_it() -> None:
    assert ended(raises(SystemExit(3))) == (3, "", "")


def test_what_went_well_ends_with_nothing() -> None:
    assert ended(lambda: None) == (0, "", "")


@pytest.mark.gate  # the fast tests run without migrations
def test_a_database_that_is_behind_is_named(tmp_path: Path) -> None:
    with database_at(tmp_path / "empty.sqlite3"):
        code, _out, err = ended(lambda: connection.cursor().execute("SELECT * FROM nowhere"))
    assert code == 1
    assert err == "database: The database is not up to date.\n  Run: manage.py migrate\n"


def test_a_silent_database_is_named(tmp_path: Path) -> None:
    with database_at(tmp_path / "no folder" / "x.sqlite3"):
        code, _out, err = ended(lambda: connection.cursor().execute("SELECT 1"))
    assert code == 1
    assert err.startswith("database: The database does not answer: unable to open")
    assert "DATABASE_URL" in err


def test_a_refusal_of_a_database_in_order_is_told() -> None:
    code, _out, err = ended(raises(DatabaseError("disk full\nDETAIL: no room")))
    assert code == 1
    assert err.startswith("database: The database refused: disk full\n")
    assert "DETAIL" not in err


@pytest.fixture
def _complaints() -> Any:
    before = set(registry.registered_checks)

    def complain(app_configs: object, **_: object) -> list[Any]:
        return [
            Error("One.", hint="Do this.", id="countersign.E901"),
            Error("Django's own.", id="4_0.E001"),
            Warning("Minor.", id="countersign.W901"),
        ]

    register(complain)
    yield
    registry.registered_checks = before


@pytest.mark.usefixtures("_complaints")
def test_unsafe_settings_end_it_in_our_own_words() -> None:
    code, _out, err = ended(lambda: Acts(lambda: None).check())
    assert (code, err) == (1, "configuration: One.\n  Do this.\n")
