"""A small OpenID provider on loopback that signs real ID tokens, and misbehaves as a test says."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "countersign", "client-secret-of-the-test"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KID = "key-1"


@dataclass
class OpenIDProvider:
    """`claims` describe the person who signs in. `token_changes` replace claims of the ID token,
    None removes one."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    token_changes: dict[str, Any] = field(default_factory=dict)
    signs_with: Any = KEY
    algorithm: str = "RS256"
    user_info: dict[str, Any] | None = None
    emails: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    is_down: bool = False
    byte_seconds: float = 0.0
    was_read_to_its_end: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def authorize(self, address: str) -> str:
        """Sign the person in at once. Return the address to which the browser is sent back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.asked.append(query)
        answer = {"state": query["state"], "iss": self.issuer}
        if self.error:
            answer["error"] = self.error
        else:
            answer["code"] = secrets.token_urlsafe(16)
            self.codes[answer["code"]] = query
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Return a status and the tokens of a code. It works once, and only with its verifier."""
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_right = (
            asked is not None
            and asked.get("code_challenge") == challenge
            and form.get("client_secret") == CLIENT_SECRET
            and form.get("redirect_uri") == asked["redirect_uri"]
        )
        if asked is None or not is_right:
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": "access",
            "token_type": "Bearer",
            "id_token": self.sign(asked.get("nonce", "")),
        }

    def sign(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            **self.claims,
            **self.token_changes,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, self.signs_with, self.algorithm, headers={"kid": KID})


def describe_key() -> dict[str, Any]:
    public: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    return {**public, "kid": KID, "use": "sig", "alg": "RS256"}


def _make_handler(provider: OpenIDProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            match urlsplit(self.path).path:
                case "/.well-known/openid-configuration":
                    self._send(200, provider.describe())
                case "/keys":
                    self._send(200, {"keys": [describe_key()]})
                case "/userinfo":
                    said = provider.claims if provider.user_info is None else provider.user_info
                    self._send(200, said)
                case "/user":  # the addresses of GitHub's interface
                    self._send(200, provider.claims)
                case "/user/emails":
                    self._send(200, provider.emails)
                case "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(self.path))
                    self.end_headers()
                case _:
                    self._send(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._send(*provider.exchange(form))

        def _send(self, status: int, value: Any) -> None:
            if provider.is_down:
                self.connection.close()
                return
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not provider.byte_seconds:
                self.wfile.write(body)
                return
            try:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(provider.byte_seconds)
                provider.was_read_to_its_end = True
            except OSError:
                return

    return Handler


@contextmanager
def running_provider() -> Iterator[OpenIDProvider]:
    provider = OpenIDProvider()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(provider))
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
