"""Databases with all tables, and collected static files: copies of templates that a test run makes
once.

The migrations of a new database take several seconds, and some hundred tests need one. All
processes of a run share the folder TEMPLATES; the first one that needs a template makes it.
"""

import atexit
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = "COUNTERSIGN_TEST_TEMPLATES"
COLLECT = "import django; django.setup(); from chatapp.server import static_files as s; s.collect()"
POSTGRESQL = "postgres://postgres@127.0.0.1:5432"


def make_sqlite(path: Path) -> str:
    """Put a database at `path` and return its URL."""
    shutil.copyfile(find_sqlite_template(), path)
    return f"sqlite:///{path}"


def copy_static(var_dir: Path) -> None:
    """Put the static files where a server with this VAR_DIR collects them."""
    shutil.copytree(_make_once("static", _make_static_template), var_dir, dirs_exist_ok=True)


def _make_static_template(path: Path) -> None:
    draft = path.with_suffix(".draft")
    subprocess.run(
        [sys.executable, "-c", COLLECT],
        cwd=ROOT,
        env={
            **keep_environment(),
            "DJANGO_SETTINGS_MODULE": "chatapp.settings",
            "VAR_DIR": str(draft / "var"),
        },
        check=True,
        timeout=300,
    )
    made = draft / "made"
    made.mkdir()
    for name in ("static", "static.stamp"):
        (draft / "var" / name).rename(made / name)
    made.rename(path)


def make_postgresql() -> str:
    """Return the URL of a new database. The caller drops it with `drop_postgresql`."""
    name = make_database_name()
    run_on_postgresql(f"CREATE DATABASE {name} TEMPLATE {_postgresql_template()}")
    return f"{POSTGRESQL}/{name}"


def drop_postgresql(url: str) -> None:
    run_on_postgresql(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")


def run_on_postgresql(statement: str) -> None:
    """Skip the test if there is no PostgreSQL."""
    try:
        connection = psycopg.connect(f"{POSTGRESQL}/postgres", autocommit=True, connect_timeout=10)
    except psycopg.OperationalError:
        pytest.skip(f"PostgreSQL does not answer at {POSTGRESQL}")
    with connection:
        connection.execute(statement.encode())


def open_templates() -> None:
    """Make the folder of the templates. The processes that this one starts inherit its name."""
    os.environ[TEMPLATES] = tempfile.mkdtemp(prefix="countersign-templates-")


def drop_templates() -> None:
    """Remove the templates of this run."""
    folder = Path(os.environ.pop(TEMPLATES))
    if (name := folder / "postgresql").exists():
        drop_postgresql(f"/{name.read_text()}")
    shutil.rmtree(folder)


@functools.cache
def find_sqlite_template() -> Path:
    """Return the template, which the first call in a test run makes."""
    return _make_once("sqlite3", _make_sqlite_template)


def _make_sqlite_template(path: Path) -> None:
    draft = path.with_suffix(".draft")
    _migrate(f"sqlite:///{draft}", path.parent)
    assert not draft.with_name(f"{draft.name}-wal").exists(), "The template has an open connection."
    draft.replace(path)


@functools.cache
def _postgresql_template() -> str:
    return _make_once("postgresql", _make_postgresql_template).read_text()


def _make_postgresql_template(path: Path) -> None:
    """The file holds the name of the template."""
    name = make_database_name()
    run_on_postgresql(f"CREATE DATABASE {name}")
    with tempfile.TemporaryDirectory() as folder:
        _migrate(f"{POSTGRESQL}/{name}", Path(folder))
    path.write_text(name)


def _make_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the file of this name in the folder of the run. One process makes it, and the others
    wait for it."""
    if TEMPLATES not in os.environ:  # a benchmark that is run by hand
        open_templates()
        atexit.register(drop_templates)
    path = Path(os.environ[TEMPLATES]) / name
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make(path)
    return path


def make_database_name() -> str:
    """Return a name that no other test uses."""
    return f"countersign_{uuid.uuid4().hex[:12]}"


def keep_environment() -> dict[str, str]:
    """Return the variables that a process needs, and none that would change its settings."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def _migrate(url: str, var_dir: Path) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v", "0"],
        cwd=ROOT,
        env={**keep_environment(), "VAR_DIR": str(var_dir), "DATABASE_URL": url},
        check=True,
        timeout=300,
    )
