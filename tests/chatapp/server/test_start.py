"""`manage.py` itself: whatever stops it while it loads, it is gone without a traceback."""

import subprocess
from pathlib import Path

import pytest

from .test_serve import manage

INTERRUPTED = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def started(place: Path, settings: str) -> subprocess.CompletedProcess[str]:
    """A command that begins with these settings."""
    (place / "planted.py").write_text(settings)
    more = {"DJANGO_SETTINGS_MODULE": "planted", "PYTHONPATH": str(place)}
    return manage(place, "check", **more)


def test_ctrl_c_while_it_loads_is_quiet(tmp_path: Path) -> None:
    ran = started(tmp_path, INTERRUPTED)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("raise ValueError('No such zone')", "configuration: The settings cannot be read: No such"),
        ("open('/proc/nowhere')", "files: No such file or directory: /proc/nowhere"),
        ("import nothing_like_it", "internal: ModuleNotFoundError: No module named"),
        ("1 / 0", "internal: ZeroDivisionError: division by zero"),
    ],
)
def test_settings_that_fail_end_it_in_words(tmp_path: Path, settings: str, said: str) -> None:
    ran = started(tmp_path, settings)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(said)
    assert "Traceback" not in ran.stderr


def test_a_bug_says_how_to_see_more(tmp_path: Path) -> None:
    assert "--traceback" in started(tmp_path, "1 / 0").stderr
