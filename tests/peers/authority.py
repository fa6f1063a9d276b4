"""A real OAuth authorization server, made with the SDK's server side, and a service that it guards.
Whoever asks for authorization is `person`, and agrees at once."""

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    IdentityAssertionParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .company import Company
from .serving import Application, Message, Served

WELL_KNOWN = "/.well-known/oauth-authorization-server"
SCOPES = ["tools", "admin", "offline_access", *(f"right-{number}" for number in range(4))]


@dataclass
class Authority:
    """The server's state, which tests look into, and its manners, which they change."""

    url: str = ""
    person: str = "ada"
    lifetime: int | None = 3600
    gives_refresh_tokens: bool = True
    names_its_issuer: bool = False
    # What the metadata says differently; None takes a field away.
    says: dict[str, Any] = field(default_factory=dict)
    # What the next token requests are answered with instead.
    answers: list[Application] = field(default_factory=list)
    # The same for what it says of itself, for registrations, and for revocations.
    descriptions: list[Application] = field(default_factory=list)
    registering: list[Application] = field(default_factory=list)
    revoking: list[Application] = field(default_factory=list)
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    tokens: dict[str, AccessToken] = field(default_factory=dict)
    refreshers: dict[str, RefreshToken] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    registrations: int = 0
    # Whose word on people counts here.
    company: Company | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        said = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": self.names_its_issuer or None,
            **self.says,
        }
        return {name: value for name, value in said.items() if value is not None}

    def grants(self, grant_type: str) -> int:
        """How many token requests of this kind arrived."""
        return sum(request.get("grant_type") == grant_type for request in self.requests)

    def instead(self, path: str) -> list[Application]:
        """What tests want to be answered here, if anything."""
        answers = {
            WELL_KNOWN: self.descriptions,
            "/register": self.registering,
            "/revoke": self.revoking,
        }
        return answers.get(path, [])

    def know(self, client: dict[str, Any]) -> None:
        """Somebody has made this client here by hand."""
        made = OAuthClientInformationFull.model_validate(client)
        self.clients[made.client_id] = made

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.registrations += 1
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.person,
        )
        self.codes[code.code] = code
        iss = self.url if self.names_its_issuer else None
        return construct_redirect_uri(
            str(params.redirect_uri), code=code.code, state=params.state, iss=iss
        )

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refreshers.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        """Rotates: the old one is worth nothing from here on."""
        del self.refreshers[refresh_token.token]
        return self._issue(refresh_token)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        ends = found.expires_at if found else None
        return None if ends is not None and ends < time.time() else found

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.tokens.pop(token.token, None)
        self.refreshers.pop(token.token, None)

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        if self.company is None:
            raise TokenError("unsupported_grant_type")
        person = self.company.person_in(
            params.assertion,
            audience=self.url,
            client=client.client_id,
            resource=params.resource,
        )
        access = AccessToken(
            token=f"access-{secrets.token_urlsafe(24)}",
            client_id=client.client_id,
            scopes=params.scopes or [],
            resource=params.resource,
            subject=person,
        )
        self.tokens[access.token] = access
        return OAuthToken(
            access_token=access.token,
            expires_in=self.lifetime,
            scope=" ".join(access.scopes) or None,
        )

    def _issue(self, asked: AuthorizationCode | RefreshToken) -> OAuthToken:
        common: dict[str, Any] = {
            "client_id": asked.client_id,
            "scopes": asked.scopes,
            "resource": asked.resource,
            "subject": asked.subject,
        }
        access, refresh = (f"{kind}-{secrets.token_urlsafe(24)}" for kind in ("access", "refresh"))
        ends = None if self.lifetime is None else int(time.time()) + self.lifetime
        self.tokens[access] = AccessToken(token=access, expires_at=ends, **common)
        if self.gives_refresh_tokens:
            self.refreshers[refresh] = RefreshToken(token=refresh, **common)
        return OAuthToken(
            access_token=access,
            expires_in=self.lifetime,
            scope=" ".join(asked.scopes) or None,
            refresh_token=refresh if self.gives_refresh_tokens else None,
        )


def authority_application(authority: Authority) -> Application:
    """The server over HTTP: the SDK's routes, metadata and token answers being as tests want."""
    routes = create_auth_routes(
        authority,
        AnyHttpUrl(authority.url),
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES),
        revocation_options=RevocationOptions(enabled=True),
        identity_assertion_enabled=True,
    )

    async def metadata(_: Any) -> Response:
        return JSONResponse(authority.metadata)

    described = Route(WELL_KNOWN, metadata)
    return _overheard(authority, Starlette(routes=[described, *routes]))


def _overheard(authority: Authority, application: Application) -> Application:
    async def listening(scope: Message, receive: Any, send: Any) -> None:
        instead = authority.instead(scope.get("path", ""))
        if instead:
            await instead.pop(0)(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"] != "/token":
            await application(scope, receive, send)
            return
        message = await receive()
        form = {name: values[0] for name, values in parse_qs(message["body"].decode()).items()}
        sent = {name.decode(): value.decode() for name, value in scope["headers"]}
        authority.requests.append(form | {"authorization": sent.get("authorization", "")})
        if authority.answers:
            await authority.answers.pop(0)(scope, receive, send)
            return
        if form.get("grant_type") == "client_credentials":
            await _own_token(authority, form)(scope, receive, send)
            return
        messages = [message]

        async def again() -> Message:
            next_one: Message = messages.pop() if messages else await receive()
            return next_one

        await application(scope, again, send)

    return listening


def _own_token(authority: Authority, form: dict[str, str]) -> Response:
    """The SDK's server side has no client credentials, so this one grant is given here."""
    access = f"access-{secrets.token_urlsafe(24)}"
    authority.tokens[access] = AccessToken(
        token=access,
        client_id=form.get("client_id", ""),
        scopes=form.get("scope", "tools").split(),
        resource=form.get("resource"),
        subject="the application",
    )
    answer = {"access_token": access, "token_type": "Bearer", "expires_in": authority.lifetime}
    return JSONResponse(answer)


@contextmanager
def served_authority(port: int = 0) -> Iterator[tuple[Authority, Served]]:
    """An authorization server on this machine."""
    authority = Authority()
    built: list[Application] = []

    async def late(scope: Message, receive: Any, send: Any) -> None:
        await built[0](scope, receive, send)

    with ExitStack() as stack:
        served = Served(late, path="", port=port)
        authority.url = served.url
        built.append(authority_application(authority))
        stack.enter_context(served)
        yield authority, served
