"""A company's identity provider (OpenID Connect). Every visitor is `person` and agrees at once; an
identity is exchanged for an assertion for one service's authorization server."""

import base64
import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.server.auth.provider import TokenError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from .serving import Application, Served

CLIENT, SECRET = "countersign", "the-company's-secret:%"
ASSERTION = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"


class Refusal(Exception):
    """An OAuth error code."""


@dataclass
class Company:
    """The state of the provider, which tests read, and its options, which they change."""

    url: str = ""
    person: str = "ada"
    lifetime: int = 3600
    # The application's name at the service's authorization server.
    client_there: str = "countersign-there"
    # With which code the exchange for a resource is refused.
    refuses: dict[str, str] = field(default_factory=dict)
    # What ID tokens, assertions and answers to an exchange say differently.
    identity_says: dict[str, Any] = field(default_factory=dict)
    assertion_says: dict[str, Any] = field(default_factory=dict)
    exchange_says: dict[str, Any] = field(default_factory=dict)
    assertion_type: str = "oauth-id-jag+jwt"
    # What the next token requests are answered with instead.
    answers: list[Application] = field(default_factory=list)
    gives_refresh_tokens: bool = True
    renews_identity: bool = True
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refreshers: dict[str, str] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def grants(self, kind: str) -> int:
        """Return how many token requests with this kind of grant arrived."""
        return sum(request["grant_type"].endswith(kind) for request in self.requests)

    def sign(self, claims: dict[str, Any], kind: str = "JWT") -> str:
        now = int(time.time())
        standing = {"iss": self.url, "iat": now, "exp": now + self.lifetime}
        return jwt.encode({**standing, **claims}, self.key, "ES256", headers={"typ": kind})

    def identity(self, person: str, **claims: str) -> str:
        return self.sign({"sub": person, "aud": CLIENT, **claims, **self.identity_says})

    def read(self, token: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token signed here for this audience; raise InvalidTokenError
        otherwise."""
        public = self.key.public_key()
        found: dict[str, Any] = jwt.decode(
            token, public, ["ES256"], audience=audience, issuer=self.url
        )
        return found

    def person_in(self, assertion: str, *, audience: str, client: str, resource: str | None) -> str:
        """Return the person of this assertion, after the checks of a service's authorization
        server."""
        try:
            claims = self.read(assertion, audience)
        except jwt.exceptions.InvalidTokenError:
            raise TokenError("invalid_grant") from None
        typed = jwt.get_unverified_header(assertion)["typ"] == "oauth-id-jag+jwt"
        if not typed or claims["client_id"] != client or claims["resource"] != resource:
            raise TokenError("invalid_grant")
        return str(claims["sub"])

    def token(self, form: dict[str, str]) -> dict[str, Any]:
        if (form["client_id"], form["client_secret"]) != (CLIENT, SECRET):
            raise Refusal("invalid_client")
        match form["grant_type"].rsplit(":")[-1]:
            case "authorization_code":
                return self._first(form)
            case "refresh_token":
                return self._next(form)
            case "token-exchange":
                return self._exchanged(form)
        raise Refusal("unsupported_grant_type")

    def _first(self, form: dict[str, str]) -> dict[str, Any]:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or challenge != asked["code_challenge"]:
            raise Refusal("invalid_grant")
        if form["redirect_uri"] != asked["redirect_uri"]:
            raise Refusal("invalid_grant")
        return self._answer(
            asked["person"], id_token=self.identity(asked["person"], nonce=asked["nonce"])
        )

    def _next(self, form: dict[str, str]) -> dict[str, Any]:
        person = self.refreshers.pop(form["refresh_token"], None)
        if person is None:
            raise Refusal("invalid_grant")
        renewed = {"id_token": self.identity(person)} if self.renews_identity else {}
        return self._answer(person, **renewed)

    def _answer(self, person: str, **given: str) -> dict[str, Any]:
        said = {"access_token": secrets.token_urlsafe(8), "token_type": "Bearer", **given}
        if self.gives_refresh_tokens:
            said["refresh_token"] = f"refresh-{secrets.token_urlsafe(16)}"
            self.refreshers[said["refresh_token"]] = person
        return said

    def _exchanged(self, form: dict[str, str]) -> dict[str, Any]:
        wanted = (form["requested_token_type"], form["subject_token_type"])
        if wanted != (ASSERTION, ID_TOKEN):
            raise Refusal("invalid_request")
        try:
            person = self.read(form["subject_token"], CLIENT)["sub"]
        except jwt.exceptions.InvalidTokenError:
            raise Refusal("invalid_grant") from None
        if code := self.refuses.get(form["resource"]):
            raise Refusal(code)
        claims = {
            "sub": person,
            "aud": form["audience"],
            "resource": form["resource"],
            "client_id": self.client_there,
            "jti": secrets.token_urlsafe(8),
            **self.assertion_says,
        }
        return {
            "issued_token_type": ASSERTION,
            "access_token": self.sign(claims, self.assertion_type),
            "token_type": "N_A",
            "expires_in": 300,
            **self.exchange_says,
        }


def company_application(company: Company) -> Application:
    async def described(_: Request) -> Response:
        said = {
            "issuer": company.url,
            "authorization_endpoint": f"{company.url}/authorize",
            "token_endpoint": f"{company.url}/token",
            "revocation_endpoint": f"{company.url}/revoke",
            "response_types_supported": ["code"],
            "scopes_supported": ["openid", "offline_access"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }
        return JSONResponse(said)

    async def authorize(request: Request) -> Response:
        code = secrets.token_urlsafe(16)
        company.codes[code] = {**request.query_params, "person": company.person}
        back = urlencode({"code": code, "state": request.query_params["state"]})
        return RedirectResponse(f"{request.query_params['redirect_uri']}?{back}", status_code=302)

    async def token(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        client, _, secret = base64.b64decode(basic).decode().partition(":")
        form |= {"client_id": unquote(client), "client_secret": unquote(secret)}
        company.requests.append(form)
        if company.answers:
            return _Instead(company.answers.pop(0))
        try:
            return JSONResponse(company.token(form))
        except Refusal as refusal:
            return JSONResponse({"error": str(refusal)}, status_code=400)

    async def revoke(request: Request) -> Response:
        company.revoked.append(str((await request.form())["token"]))
        return JSONResponse({})

    application: Application = Starlette(
        routes=[
            Route("/.well-known/openid-configuration", described),
            Route("/authorize", authorize),
            Route("/token", token, methods=["POST"]),
            Route("/revoke", revoke, methods=["POST"]),
        ]
    )
    return application


class _Instead(Response):
    """An answer that a test has set."""

    def __init__(self, application: Application) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)


@contextmanager
def served_company() -> Iterator[Company]:
    """An identity provider on this machine."""
    company = Company()
    with Served(company_application(company), path="") as served:
        company.url = served.url
        yield company
