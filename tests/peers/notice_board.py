"""A push service and the webhooks of Slack, Teams, Matrix and of a program, in one server.

It accepts what the real ones accept: a push message must be signed and encrypted for its browser,
and each webhook must get its own form. All else is answered as they would refuse it.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import http_ece
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02

from .serving import Served

MATRIX_TOKEN = "syt_example_token"
SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes ...").decode()
ROOM = "!ops:chat.example"
MATRIX_PLACE = re.compile(
    r"/_matrix/client/v3/rooms/(?P<room>[^/]+)/send/m\.room\.message/(?P<id>[^/]+)"
)
CARD = "application/vnd.microsoft.card.adaptive"
Headers = dict[str, str]


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


@dataclass(slots=True)
class FakeBrowser:
    """The keys of a browser and its address at the push service."""

    address: str
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    secret: bytes = b"sixteen bytes..."

    @property
    def subscription(self) -> str:
        """What the browser's script sends to the server."""
        point = self.key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        keys = {"p256dh": encode(point), "auth": encode(self.secret)}
        return json.dumps({"endpoint": self.address, "expirationTime": None, "keys": keys})

    def read(self, body: bytes) -> Any:
        """Decrypt a message, as a browser does."""
        opened = http_ece.decrypt(body, private_key=self.key, auth_secret=self.secret)
        return json.loads(opened)


@dataclass(slots=True)
class NoticeBoard:
    """What arrived, in order. `status` is the answer to all that is well-formed, if it is set."""

    address: str = ""
    browsers: dict[str, FakeBrowser] = field(default_factory=dict)
    pushed: list[tuple[Headers, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    status: int = 0
    transactions: dict[str, Any] = field(default_factory=dict)

    def open_browser(self, name: str = "phone") -> FakeBrowser:
        browser = FakeBrowser(f"{self.address}/push/{name}")
        self.browsers[f"/push/{name}"] = browser
        return browser

    def answer(self, method: str, path: str, headers: Headers, body: bytes) -> int:
        """Return the status of the answer to this request."""
        try:
            self._find_reader(path)(method, path, headers, body)
        except Exception as error:
            self.refused.append(repr(error))
            return 400
        return self.status or (201 if path.startswith("/push/") else 200)

    def _find_reader(self, path: str) -> Callable[[str, str, Headers, bytes], None]:
        if path.startswith("/push/"):
            return self._read_push
        if path.startswith("/_matrix/"):
            return self._read_matrix
        return {"/slack": self._read_slack, "/teams": self._read_teams, "/json": self._read_json}[
            path
        ]

    def _read_push(self, method: str, path: str, headers: Headers, body: bytes) -> None:
        assert method == "POST"
        assert headers["content-encoding"] == "aes128gcm"
        assert int(headers["ttl"]) > 0
        assert re.fullmatch(r"[\w-]{1,32}", headers["topic"])
        assert Vapid02.verify(headers["authorization"])
        token = re.search(r"t=([^,]+)", headers["authorization"])
        assert token
        claims = jwt.decode(token[1], options={"verify_signature": False})
        assert claims["aud"] == self.address
        assert claims["sub"].startswith(("mailto:", "https:"))
        assert len(body) < 4096
        message = self.browsers[path].read(body)
        if not self.status:
            self.pushed.append((headers, message))
        self.bodies.append(body)

    def _read_slack(self, _method: str, _path: str, headers: Headers, body: bytes) -> None:
        message = json.loads(body)
        assert headers["content-type"] == "application/json"
        assert set(message) == {"text"} and message["text"]
        self._keep(message)

    def _read_teams(self, _method: str, _path: str, _headers: Headers, body: bytes) -> None:
        message = json.loads(body)
        (attachment,) = message["attachments"]
        card = attachment["content"]
        assert (message["type"], attachment["contentType"]) == ("message", CARD)
        assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
        self._keep(card)

    def _read_matrix(self, method: str, path: str, headers: Headers, body: bytes) -> None:
        place = MATRIX_PLACE.fullmatch(path)
        assert place
        assert method == "PUT"
        assert headers["authorization"] == f"Bearer {MATRIX_TOKEN}"
        assert unquote(place["room"]) == ROOM
        message = json.loads(body)
        assert message["msgtype"] == "m.text" and message["body"]
        self.transactions.setdefault(place["id"], message)
        self._keep(message)

    def _read_json(self, _method: str, _path: str, headers: Headers, body: bytes) -> None:
        signed = b".".join(
            (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body)
        )
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"
        self._keep(json.loads(body))

    def _keep(self, message: Any) -> None:
        if not self.status:
            self.posted.append(message)


def build_application(board: NoticeBoard) -> Callable[..., Awaitable[None]]:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, has_more = b"", True
        while has_more:
            part = await receive()
            body += part.get("body", b"")
            has_more = part.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["raw_path"].decode()
        status = board.answer(scope["method"], path, headers, body)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return application


@contextmanager
def notice_board(settings: Any) -> Iterator[NoticeBoard]:
    """The server, with settings that allow to send to it."""
    board = NoticeBoard()
    with Served(build_application(board), path="") as served:
        board.address = served.url.rstrip("/")
        settings.PUSH_PRIVATE_HOSTS = settings.WEBHOOK_PRIVATE_HOSTS = ["127.0.0.1"]
        settings.PUBLIC_URL = "https://chat.example"
        yield board
