"""Anchors: the end of the log, signed and kept elsewhere, tells of a log that was replaced."""

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core.checks import run_checks
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.audit import anchors, audit_log
from chatapp.background import jobs
from chatapp.models import LogEntry, LogHead
from tests.commands import Ran
from tests.peers.post_office import post_office

from .test_audit_log import ENTRIES, make_event, sql, written

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
__all__ = ["written"]


@pytest.fixture
def kept(tmp_path: Path, settings: Any, written: None) -> Path:
    """A file elsewhere, which has the anchor of the log as it is now."""
    settings.LOG_ANCHORS = [f"file:{tmp_path / 'anchors.jsonl'}"]
    assert Ran("log", "anchor").code == 0
    return tmp_path / "anchors.jsonl"


def count(file: Path) -> int:
    return len(file.read_text().splitlines())


def test_a_log_that_goes_on_fits_its_anchors(kept: Path) -> None:
    audit_log.append([make_event(20)])
    Ran("log", "anchor")
    assert count(kept) == 2
    assert kept.stat().st_mode & 0o777 == 0o600
    ran = Ran("log", "verify", "--anchor", str(kept))
    assert "The log is intact" in ran.out + ran.err


def test_a_tail_that_was_cut_off_is_found(kept: Path) -> None:
    sql("DELETE FROM {} WHERE position > 6")
    last = LogEntry.objects.get(position=6)
    LogHead.objects.update(position=6, hash=last.hash)
    assert audit_log.verify()[1] == "", "the chain alone does not tell"
    ran = Ran("log", "verify", "--anchor", str(kept))
    assert (ran.code, "Entry 7: This entry and all later ones are missing" in ran.err) == (1, True)


def test_a_chain_written_anew_is_found_also_with_the_anchors_of_the_new_one(kept: Path) -> None:
    sql("DELETE FROM {}")
    LogHead.objects.all().delete()
    audit_log.append([make_event(40 + number) for number in range(ENTRIES)])
    assert audit_log.verify()[1] == ""
    ran = Ran("log", "verify", "--anchor", str(kept))
    assert (ran.code, f"Entry {ENTRIES}: The entry’s hash differs" in ran.err) == (1, True)
    Ran("log", "anchor")
    ran = Ran("log", "verify", "--anchor", str(kept))
    assert (ran.code, f"Entry {ENTRIES}: Two different hashes" in ran.err) == (1, True)


@pytest.mark.parametrize("name", ["position", "hash", "at", "key", "signature"])
def test_an_anchor_that_was_changed_is_refused(kept: Path, name: str) -> None:
    anchor = json.loads(kept.read_text())
    anchor[name] = anchor[name] + 1 if name == "position" else anchor[name][::-1]
    kept.write_text(json.dumps(anchor))
    ran = Ran("log", "verify", "--anchor", str(kept))
    assert (ran.code, "Line 1 is not an anchor signed with this key" in ran.err) == (1, True)


# The public key of this one begins with "-", as every 64th does.
KEY_WITH_DASH = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACE"


def test_an_anchor_of_another_server_needs_its_key(
    tmp_path: Path, settings: Any, written: None
) -> None:
    settings.LOG_SIGNING_KEY = KEY_WITH_DASH
    settings.LOG_ANCHORS = [f"file:{tmp_path / 'anchors.jsonl'}"]
    kept = str(tmp_path / "anchors.jsonl")
    assert Ran("log", "anchor").code == 0
    key = Ran("log", "anchor", "--public-key").out.strip()
    bare = key.removeprefix("ed25519:")
    assert bare.startswith("-")
    settings.LOG_SIGNING_KEY = "A" * 43
    assert "signed" in Ran("log", "verify", "--anchor", kept).err
    for given in (["--public-key", key], [f"--public-key={bare}"]):
        ran = Ran("log", "verify", "--anchor", kept, *given)
        assert "The log is intact" in ran.out + ran.err


@pytest.mark.parametrize("text", ["", "a line of a log\n{}\n"])
def test_a_file_without_an_anchor_proves_nothing(kept: Path, text: str) -> None:
    kept.write_text(text)
    ran = Ran("log", "verify", "--anchor", str(kept))
    assert (ran.code, "has no anchor" in ran.err) == (1, True)


def test_a_file_that_is_not_there_is_refused_in_words(written: None, tmp_path: Path) -> None:
    ran = Ran("log", "verify", "--anchor", str(tmp_path / "none"))
    assert (ran.code, "can’t be read" in ran.err) == (1, True)


def test_anchors_are_found_among_the_lines_of_a_server_log(kept: Path) -> None:
    anchor = kept.read_text()
    others = 'INFO {"position": 1, "signature": "of another"}\nINFO {"signature": "position\n'
    kept.write_text(f"{others}web-1  | {anchor}12:02 INFO Bye\n")
    (mark,) = anchors.read_anchors(kept.read_text().splitlines(), [anchors.get_public_key()])
    assert mark == audit_log.read_end()


# --- the tasks
def enqueued() -> list[int]:
    """The numbers of the places in tasks that wait."""
    ready = DBTaskResult.objects.ready().order_by("enqueued_at")
    return [each.args_kwargs["args"][0] for each in ready if each.task_name == "write_anchor"]


def test_each_place_has_a_task_of_its_own(kept: Path, settings: Any, tmp_path: Path) -> None:
    settings.LOG_ANCHORS = [f"file:{tmp_path}/away/anchors", *settings.LOG_ANCHORS]
    jobs.write_anchors.call()
    assert enqueued() == [0, 1]
    with pytest.raises(jobs.AnchorNotWritten, match="No anchor was written to file:"):
        jobs.write_anchor.call(0)
    before = count(kept)
    jobs.write_anchor.call(1)
    assert count(kept) == before + 1


def test_a_place_that_was_taken_from_the_settings_is_no_error(kept: Path, settings: Any) -> None:
    settings.LOG_ANCHORS = []
    jobs.write_anchors.call()
    jobs.write_anchor.call(0)
    assert enqueued() == []


# --- the places
def test_an_anchor_is_printed(
    written: None, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LOG_ANCHORS = ["stdout"]
    anchor = anchors.make_anchor()
    assert anchors.write_anchor(anchor) == []
    assert capsys.readouterr().out == anchor + "\n"


def test_an_anchor_is_mailed(written: None, settings: Any) -> None:
    with post_office(settings) as office:
        settings.LOG_ANCHORS = ["mailto:safe@example.org"]
        anchor = anchors.make_anchor()
        assert anchors.write_anchor(anchor) == []
        (mail,) = office.mails
        assert mail["To"] == "safe@example.org"
        lines = mail.get_content().splitlines()
        assert [*anchors.read_anchors(lines, [anchors.get_public_key()])] == [audit_log.read_end()]
        office.answer = "451 Not now"
        (failure,) = anchors.write_anchor(anchor)
        assert "mailto:safe@example.org" in failure


class Hook(BaseHTTPRequestHandler):
    """Keeps what it gets, or answers 500."""

    bodies: list[str] = []
    status = 204

    def do_POST(self) -> None:  # noqa: N802
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an HTTPS server with a certificate of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    now = timezone.now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    both = tmp_path / "hook.pem"
    both.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setattr(Hook, "bodies", [])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}/a-secret-path"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_anchor_is_posted(
    written: None, settings: Any, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LOG_ANCHORS = [hook]
    anchor = anchors.make_anchor()
    assert anchors.write_anchor(anchor) == []
    assert Hook.bodies == [anchor]
    monkeypatch.setattr(Hook, "status", 500)
    (failure,) = anchors.write_anchor(anchor)
    assert "https://127.0.0.1" in failure
    assert "500" in failure
    assert "a-secret-path" not in failure


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("stdout", None),
        ("file:/srv/anchors", None),
        ("file:anchors", "E008"),
        ("http://example.org/hook", "E008"),
        ("https://", "E008"),
        ("https://[bad", "E008"),
        ("https://host:port/hook", "E008"),
        ("mailto:nobody", "E008"),
        ("mailto:safe@example.org", "E009"),
        ("somewhere", "E008"),
    ],
)
def test_an_unusable_place_stops_the_start(settings: Any, place: str, error: str | None) -> None:
    settings.LOG_ANCHORS = [place]
    found = [each.id for each in run_checks(tags=["security"])]
    assert found == ([f"countersign.{error}"] if error else [])


def test_a_secret_in_an_unusable_place_is_not_printed(settings: Any) -> None:
    settings.LOG_ANCHORS = ["http://name:pass@example.org/hook/SECRET?key=SECRET"]
    (found,) = run_checks(tags=["security"])
    assert "http://example.org," in found.msg


def test_a_key_that_is_none_stops_the_start(settings: Any) -> None:
    settings.LOG_SIGNING_KEY = "too short"
    assert [each.id for each in run_checks(tags=["security"])] == ["countersign.E007"]
