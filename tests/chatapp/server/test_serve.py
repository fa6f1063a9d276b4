"""`manage.py serve` and the commands beside it, run as people run them."""

import contextlib
import json
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.management import call_command

from chatapp.management.commands.serve import run_apart
from chatapp.models import Member, SignInLink
from chatapp.people import sign_in_links
from chatapp.server import serving
from mcpconfig.management.failures import Failure
from tests.commands import Ran
from tests.flows.server import eventually
from tests.migrated import keep_environment, make_sqlite

ROOT = Path(__file__).resolve().parents[3]
# Promised are 15 for a first start and 3 for a warm one, on a machine that does nothing else.
STOP_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server and what it printed until it answered."""

    process: subprocess.Popen[str]
    address: str
    lines: list[str]

    def status(self, path: str) -> int:
        return self.get(path)[0]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.address + path, timeout=60) as answer:  # noqa: S310
                return int(answer.status), answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, ""

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


def environment(place: Path, **more: str) -> dict[str, str]:
    return {**keep_environment(), "VAR_DIR": str(place), "PYTHONUNBUFFERED": "1", **more}


def manage(place: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment(place, **more),
        capture_output=True,
        text=True,
        timeout=180,
    )


@contextlib.contextmanager
def serve(place: Path, *words: str, expect: int = 2, **more: str) -> Iterator[Served]:
    """A server that has printed `expect` lines; it is gone afterwards, whatever happened."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", *words],
        cwd=ROOT,
        env=environment(place, **more),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(expect)]
        found = re.fullmatch(r"Serving on (http://127\.0\.0\.1:\d+)/", lines[0])
        assert found, lines
        yield Served(process=process, address=found[1], lines=lines)
    finally:
        process.kill()
        process.wait(STOP_SECONDS)
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def free_pair() -> int:
    """A free port with a free one behind it, where the system gives nobody one by itself."""
    for begin in random.sample(range(20_000, 30_000), 100):
        with contextlib.suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", begin))
            second.bind(("127.0.0.1", begin + 1))
            return begin
    raise AssertionError("No two ports are free.")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of one installation, set up once for this module."""
    return tmp_path_factory.mktemp("installation")


@pytest.fixture(scope="module")
def first_start(place: Path) -> tuple[Served, int, dict[str, int]]:
    with serve(place, "--port", str(free_port())) as served:
        pages = {path: served.status(path) for path in ("/sign-in/", "/healthz", "/readyz")}
        for path in re.findall(r'href="(/static/[^"]+)"', served.get("/sign-in/")[1]):
            pages[path] = served.status(path)
        pages["heartbeats"] = 200 if len(read_workers(place)) == 1 else 500
        code = served.stop()
    return served, code, pages


def read_workers(place: Path) -> list[str]:
    """The kinds of the processes that report to the database of this installation."""
    (file,) = place.glob("*.sqlite3")
    with contextlib.closing(sqlite3.connect(file)) as opened:
        return [kind for (kind,) in opened.execute("SELECT kind FROM chatapp_worker")]


@pytest.mark.gate
def test_a_first_start_sets_up_serves_and_prints_the_way_in(
    first_start: tuple[Served, int, dict[str, int]],
) -> None:
    served, _code, pages = first_start
    assert set(pages.values()) == {200}, pages
    assert any(path.startswith("/static/css/") for path in pages)
    assert re.fullmatch(rf"First sign-in: {served.address}/sign-in/[\w-]{{43}}/", served.lines[1])


@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_what_the_server_sets_up_is_logged_as_its_own_act(place: Path) -> None:
    told = [json.loads(line) for line in manage(place, "log", "export").stdout.splitlines()]
    demo = [entry for entry in told if entry["kind"] in ("service.changed", "tool.changed")]
    assert {entry["kind"] for entry in demo} == {"service.changed", "tool.changed"}
    assert {(entry["actor"]["id"], entry["actor"]["name"]) for entry in demo} == {(None, "")}


@pytest.mark.gate
def test_a_start_ends_with_the_command_that_fails(tmp_path: Path) -> None:
    (tmp_path / "static").write_text("not a folder")
    database = {"DATABASE_URL": make_sqlite(tmp_path / "chat.sqlite3")}
    done = manage(tmp_path, "serve", "--port", "0", **database)
    assert done.returncode == 1
    assert re.fullmatch(r"failed: collectstatic: \w+Error: .+/static'?\n?.*", done.stderr.strip())
    assert "Serving on" not in done.stdout


@pytest.mark.gate
def test_a_start_that_is_ended_leaves_no_command_behind(tmp_path: Path) -> None:
    """The command would go on without the lock of the start, beside the next one."""
    words = [sys.executable, "manage.py", "serve", "--port", "0"]
    with subprocess.Popen(words, cwd=ROOT, env=environment(tmp_path)) as started:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        eventually(lambda: bool(children.read_text()), "the start runs a command")
        (child,) = map(int, children.read_text().split())
        command = Path(f"/proc/{child}/cmdline")
        eventually(lambda: b"migrate" in command.read_bytes(), "the command is to migrate")
        started.terminate()
        assert started.wait(STOP_SECONDS) == 1
        assert not command.exists()


@pytest.mark.gate
def test_a_signal_while_a_command_starts_ends_the_command_and_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []

    class SignalledPopen(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    def fail(*_: object) -> None:
        pytest.fail("the start did not take the signal")

    monkeypatch.setattr(subprocess, "Popen", SignalledPopen)
    before = signal.signal(signal.SIGTERM, fail)
    try:
        with pytest.raises(Failure, match="check: ended by SIGTERM"):
            run_apart("check")
        assert signal.getsignal(signal.SIGTERM) is fail
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [child.returncode for child in started] == [-signal.SIGTERM]


@pytest.mark.gate
def test_sigterm_ends_the_server_as_done(first_start: tuple[Served, int, dict[str, int]]) -> None:
    assert first_start[1] == 0


@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_a_server_that_ended_no_longer_reports(place: Path) -> None:
    assert read_workers(place) == []


@pytest.mark.long
@pytest.mark.gate
def test_a_warm_start_is_quick_and_prints_a_new_link_until_a_password_is_set(
    place: Path, first_start: tuple[Served, int, dict[str, int]]
) -> None:
    with serve(place, "--port", str(free_port())) as again:
        assert again.status("/sign-in/") == 200
        assert again.lines[1].startswith("First sign-in: ")
        assert again.lines[1].rsplit("/", 2)[1] != first_start[0].lines[1].rsplit("/", 2)[1]
    added = manage(place, "member", "add", "kim", "--password-env", "PW", PW="a long enough phrase")
    assert added.returncode == 0, added.stderr
    with serve(place, "--port", str(free_port()), expect=1) as served:
        assert served.stop(signal.SIGINT) == 0
        assert served.process.stdout is not None
        assert served.process.stdout.read() == ""


@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_a_killed_server_frees_its_port_at_once(place: Path) -> None:
    port = str(free_port())
    # An open connection is what would keep the address in use for a minute.
    with (
        serve(place, "--port", port, expect=1) as served,
        socket.create_connection(("127.0.0.1", int(port)), timeout=5),
    ):
        served.stop(signal.SIGKILL)
    with serve(place, "--port", port, expect=1) as second:
        assert second.status("/healthz") == 200


@pytest.mark.long
@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_a_taken_port_is_an_error_in_words(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = manage(place, "serve", "--port", str(port))
    assert result.returncode == 1
    assert f"port {port}" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long
@pytest.mark.gate
@pytest.mark.parametrize(
    ("words", "settings", "says"),
    [
        (["--workers", "2"], {}, "REDIS_URL"),
        (["--host", "192.0.2.7"], {"DEBUG": "1"}, "DEBUG is on"),
        ([], {"ALLOWED_HOSTS": "*"}, "ALLOWED_HOSTS accepts every host"),
        ([], {"SECRET_KEY": "changeme"}, "SECRET_KEY is short"),
    ],
)
def test_serve_refuses_to_start_unsafe(
    tmp_path: Path, words: list[str], settings: dict[str, str], says: str
) -> None:
    result = manage(tmp_path, "serve", *words, **settings)
    assert result.returncode == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long
@pytest.mark.gate
@pytest.mark.parametrize(
    "words", [("--port", "99999"), ("--port", "-1"), ("--port", "x"), ("--workers", "0")]
)
def test_a_port_or_a_number_of_workers_that_cannot_be_is_wrong_usage(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    result = manage(tmp_path, "serve", *words)
    assert result.returncode == 2
    assert "usage:" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long
@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_two_workers_serve_one_port(place: Path) -> None:
    more = {"REDIS_URL": "redis://127.0.0.1:6379/9"}
    with serve(place, "--port", str(free_port()), "--workers", "2", expect=1, **more) as served:
        assert served.status("/readyz") == 200
        assert served.stop() == 0


def read_children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_running(pid: str) -> bool:
    """A process that has ended may stay as a zombie where nobody collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_a_killed_parent_takes_its_workers_with_it(place: Path) -> None:
    more = {"REDIS_URL": "redis://127.0.0.1:6379/9"}
    port = free_port()
    with serve(place, "--port", str(port), "--workers", "2", expect=1, **more) as served:
        workers = read_children(served.process.pid)
        assert len(workers) >= 2
        served.process.kill()
        eventually(lambda: not any(map(is_running, workers)), "the end of the workers")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_first_free_port_of_the_range_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = free_pair()
    monkeypatch.setattr(serving, "PORTS", range(begin, begin + 2))
    with serving.listen("127.0.0.1", None) as first, serving.listen("127.0.0.1", None) as second:
        ports = [listener.getsockname()[1] for listener in (first, second)]
        assert ports == [begin, begin + 1]
        with pytest.raises(serving.CannotServe, match=f"{begin} to {begin + 1} is free"):
            serving.listen("127.0.0.1", None)


def test_a_host_that_is_not_here_is_an_error_in_words() -> None:
    with pytest.raises(serving.CannotServe):
        serving.listen("192.0.2.1", free_port())
    with pytest.raises(serving.CannotServe):
        serving.listen("no such host", free_port())


def test_the_socket_limits_are_set() -> None:
    found = serving.build_config(workers=1)
    assert (found.ws, found.ws_max_size, found.ws_per_message_deflate) == (
        "websockets-sansio",
        262_144,
        True,
    )
    assert (found.ws_ping_interval, found.ws_ping_timeout) == (60, 20)
    assert found.proxy_headers is False, "without PUBLIC_URL nobody may claim another address"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("trusted", "is_used"), [("127.0.0.0/8", True), ("10.0.0.5,10.1.0.0/16", False)]
)
def test_only_a_trusted_proxy_says_where_a_request_came_from(
    tmp_path: Path, trusted: str, is_used: bool
) -> None:
    """Wrong passwords are counted by the address that the proxy forwards."""
    words = ("--port", str(free_port()))
    answers = []
    with serve(
        tmp_path,
        *words,
        DATABASE_URL=make_sqlite(tmp_path / "countersign.sqlite3"),
        SIGN_IN_ADDRESS_FAILURE_LIMIT="2",
        PUBLIC_URL="https://chat.example",
        TRUSTED_PROXIES=trusted,
    ) as served:
        for name, address in [("a", "198.51.100.1"), ("b", "198.51.100.1"), ("c", "198.51.100.2")]:
            answers.append(try_to_sign_in(served, name, address))
    assert answers == ([422, 429, 422] if is_used else [422, 429, 429])


@pytest.mark.gate
@pytest.mark.usefixtures("first_start")
def test_a_server_that_drains_is_not_ready_and_still_answers(place: Path) -> None:
    words = ("--port", str(free_port()))
    with serve(place, *words, expect=1, DRAIN_SECONDS="60", SHUTDOWN_SECONDS="0") as served:
        assert served.status("/readyz") == 200
        served.process.send_signal(signal.SIGTERM)
        eventually(lambda: served.status("/readyz") == 503, "the end of readiness")
        assert served.status("/sign-in/") == 200
        # Another signal ends the wait.
        assert served.stop() == 0


def try_to_sign_in(served: Served, name: str, address: str) -> int:
    """The status of a wrong password that a proxy forwards from this address."""
    headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
    origin = {"Origin": "https://chat.example", "Host": "localhost"}
    with httpx2.Client(base_url=served.address, headers=headers, trust_env=False) as browser:
        page = browser.get("/sign-in/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
        assert token
        form = {"csrfmiddlewaretoken": token[1], "username": name, "password": "wrong"}
        cookie = {"Cookie": f"csrftoken={page.cookies['csrftoken']}"}
        return browser.post("/sign-in/", data=form, headers=cookie | origin).status_code


@pytest.mark.django_db
def test_the_first_link_goes_to_an_admin_without_a_password() -> None:
    assert sign_in_links.make_first_sign_in_link() is not None
    first = Member.objects.get()
    assert (first.username, first.is_superuser, first.has_usable_password()) == (
        "admin",
        True,
        False,
    )
    sign_in_links.make_first_sign_in_link()
    assert SignInLink.objects.count() == 1, "a new link takes the place of the old one"


@pytest.mark.django_db
def test_the_first_link_never_makes_an_admin_of_a_member() -> None:
    Member.objects.create_user("admin")
    assert sign_in_links.make_first_sign_in_link() is None
    assert not Member.objects.get().is_superuser


@pytest.mark.django_db
def test_links_use_the_public_address_where_there_is_one(settings: Any, owner: Member) -> None:
    settings.PUBLIC_URL = "https://chat.example"
    assert sign_in_links.make_sign_in_link(owner).startswith("https://chat.example/sign-in/")


@pytest.mark.django_db
def test_sign_in_link_prints_a_link_that_works(
    owner: Member, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("sign_in_link", "owner")
    token = capsys.readouterr().out.strip().rsplit("/", 2)[1]
    assert SignInLink.redeem(token) == owner


@pytest.mark.django_db
def test_sign_in_link_says_why_it_cannot(owner: Member) -> None:
    nobody = Ran("sign_in_link", "nobody")
    assert (nobody.code, nobody.out) == (1, "")
    assert nobody.err.startswith("not_found: There is no member nobody.\n")
    Member.objects.update(is_active=False)
    assert "account of owner is off" in Ran("sign_in_link", "owner").err


@pytest.mark.django_db
def test_member_add_makes_a_member_or_an_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "a long enough phrase")
    call_command("member", "add", "kim", "--password-env", "PW")
    call_command("member", "add", "lou", "--admin")
    kim, lou = Member.objects.order_by("username")
    assert kim.check_password("a long enough phrase")
    assert not kim.is_staff
    assert lou.is_superuser
    assert not lou.has_usable_password()
    assert SignInLink.objects.get().member == lou


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "password", "says"),
    [
        ("owner", "a long enough phrase", "already exists"),
        ("two words", "a long enough phrase", "valid username"),
        ("kim", "12345", "too short"),
        ("kim", "", "is not set"),
    ],
)
def test_member_add_refuses_in_words(
    owner: Member, monkeypatch: pytest.MonkeyPatch, name: str, password: str, says: str
) -> None:
    monkeypatch.setenv("PW", password)
    ran = Ran("member", "add", name, "--password-env", "PW")
    assert ran.code == 1
    assert says in ran.err
    assert Member.objects.count() == 1


@pytest.mark.django_db
def test_createsuperuser_works_without_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a long enough phrase")
    call_command("createsuperuser", interactive=False, username="root", email="", verbosity=0)
    assert Member.objects.get().check_password("a long enough phrase")
    assert sign_in_links.make_first_sign_in_link() is None
