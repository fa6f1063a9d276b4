"""An installation and its servers: real `manage.py serve` processes that tests start and strike."""

import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chatapp.journal.fault_points import FaultPoint
from tests.migrated import (
    POSTGRESQL,
    copy_static,
    drop_postgresql,
    keep_environment,
    make_database_name,
    make_postgresql,
    make_sqlite,
    run_on_postgresql,
)

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120
PATIENCE_SECONDS = 90
REDIS = "redis://127.0.0.1:6379"
CALL_COMMAND = "from django.core.management import call_command"
QUICK = {"SWEEP_SECONDS": "0.5", "LEASE_SECONDS": "6", "SHUTDOWN_SECONDS": "0"}


def eventually(
    holds: Callable[[], bool],
    what: str,
    seconds: float = PATIENCE_SECONDS,
    explain: Callable[[], str] = str,
) -> None:
    """Return once `holds`; fail, saying `what` did not happen, when the time is over. `explain`
    returns what else the failure says."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"Not within {seconds} s: {what}\n{explain()}".rstrip()
        time.sleep(0.03)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Server:
    """One serving process at a time on one port; a new one may follow one that is gone."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.workers = 1
        self.address = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / f"{name}.log"
        self.strike_path = folder / f"{name}.strike"
        self.environment = {**environment, "STRIKE_FILE": str(self.strike_path)}
        self.process: subprocess.Popen[str] | None = None

    def start(self, seconds: float = START_SECONDS) -> None:
        """Returns when it answers."""
        self.launch()
        self.await_start(seconds)

    def launch(self) -> None:
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "manage.py", "serve", "--port", str(self.port)),
                    *("--workers", str(self.workers)),
                ],
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def await_start(self, seconds: float = START_SECONDS) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        limit = threading.Timer(seconds, self.process.kill)
        limit.start()
        line = self.process.stdout.readline()
        limit.cancel()
        assert line.startswith("Serving on "), f"{line!r}\n{self.log[-2_000:]}"

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def is_frozen(self) -> bool:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "T"

    @property
    def code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def strike(
        self, point: FaultPoint, count: int = 1, number: signal.Signals = signal.SIGKILL
    ) -> None:
        """Order the running process to strike itself at this point."""
        draft = self.strike_path.with_suffix(".draft")
        draft.write_text(f"{point}:{count} {number.name}")
        draft.replace(self.strike_path)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """The exit code, once the process is gone."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            message = f"The server did not end within {seconds} s.\n{self.log[-2_000:]}"
            raise AssertionError(message) from None

    def end(self) -> None:
        """Gone at once, whatever it is doing; it may be started again."""
        self.strike_path.unlink(missing_ok=True)
        if self.process is not None:
            self.process.kill()  # reaches a frozen process, too
            self.process.wait(PATIENCE_SECONDS)
            assert self.process.stdout is not None
            self.process.stdout.close()


class Installation:
    """What several servers share: the data, the keys and the settings."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        # A benchmark has settings of its own, and measures a start that collects them.
        if "DJANGO_SETTINGS_MODULE" not in settings:
            copy_static(folder)
        self.password = secrets.token_urlsafe()
        self.servers: list[Server] = []
        self.environment = {
            **keep_environment(),
            **QUICK,
            "DJANGO_SETTINGS_MODULE": "tests.flows.kill_settings",
            "VAR_DIR": str(folder),
            "STRIKE_FILE": str(folder / "none"),
            "PYTHONUNBUFFERED": "1",
            "DEMO": "0",
            "TITLE_MODEL": "none",
            "OPENAI_API_KEY": "a-key-for-loopback",
            "PASSWORD": self.password,
            # One person has all tabs of a test.
            "SOCKETS_PER_PERSON": "1000",
            **settings,
        }

    def copy(self, folder: Path, **settings: str) -> "Installation":
        """The same people, keys and settings, for a copy of the data in another folder."""
        copied = Installation(folder)
        copied.password = self.password
        places = {"VAR_DIR": str(folder), "STRIKE_FILE": str(folder / "none")}
        copied.environment = {**self.environment, **places, **settings}
        return copied

    def manage(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def set_up(self, service_url: str) -> None:
        """A member, and one service whose tools an admin has confirmed."""
        commands = [
            ["member", "add", "owner", "--password-env", "PASSWORD"],
            ["mcp", "add", "things", service_url, "--allow-private"],
            ["mcp", "confirm", "things"],
        ]
        lines = [f"call_command(*{words})" for words in commands]
        self.manage("shell", "-c", "\n".join([CALL_COMMAND, *lines]))

    def server(self, name: str, **more: str) -> Server:
        """A server of this installation, not yet started."""
        made = Server(name, self.folder, {**self.environment, **more})
        self.servers.append(made)
        return made

    def close(self) -> None:
        for server in self.servers:
            server.end()


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a new database with all tables, which is dropped afterwards."""
    if kind == "sqlite":
        yield make_sqlite(folder / "flows.sqlite3")
        return
    url = make_postgresql()
    try:
        yield url
    finally:
        drop_postgresql(url)


@contextmanager
def spare_database() -> Iterator[str]:
    """The URL of a PostgreSQL database that Django's tests make beside it, dropped afterwards even
    where one of their threads has left a connection open."""
    name = make_database_name()
    try:
        yield f"{POSTGRESQL}/{name}"
    finally:
        run_on_postgresql(f"DROP DATABASE IF EXISTS test_{name} WITH (FORCE)")
