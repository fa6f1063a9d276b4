"""A real MCP server that accepts only tokens of an authorization server, and requires more rights
for one of its tools."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl

from .authority import Authority
from .eras import Era, speaking
from .serving import Application, Message, Served


@dataclass
class Vault:
    """The state that tests change and read. `wants` are the scopes that the tool `seal`
    requires."""

    url: str = ""
    wants: str = "admin"
    # What the description of the service says differently.
    says: dict[str, Any] = field(default_factory=dict)
    challenge: str | None = None
    runs: int = 0
    # The status with which a call is answered after the tool has run.
    afterwards: int | None = None


def vault_server(vault: Vault, authority: Authority) -> MCPServer[None]:
    server: MCPServer[None] = MCPServer(
        "vault",
        log_level="WARNING",
        token_verifier=authority,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(authority.url),
            resource_server_url=AnyHttpUrl(vault.url),
            required_scopes=["tools"],
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def whoami() -> str:
        """Says whose token it was shown."""
        vault.runs += 1
        token = get_access_token()
        return str(token and token.subject)

    @server.tool()
    def seal() -> str:
        """Wants more rights."""
        vault.runs += 1
        return "sealed"

    return server


def _fronted(vault: Vault, authority: Authority, application: Application) -> Application:
    """Answer as tests set it, and require more rights for one tool."""

    async def front(scope: Message, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if path.startswith("/.well-known/oauth-protected-resource"):
            described = {
                "resource": vault.url,
                "authorization_servers": [authority.url],
                "scopes_supported": ["tools"],
                **vault.says,
            }
            await _say(send, 200, json.dumps(described).encode())
            return
        headers = {name.decode(): value.decode() for name, value in scope.get("headers", [])}
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        held = authority.tokens.get(bearer)
        if headers.get("mcp-name") == "seal" and held and vault.wants not in held.scopes:
            challenge = f'Bearer error="insufficient_scope", scope="{vault.wants}"'
            await _say(send, 403, b"{}", challenge)
            return
        if scope["type"] == "http" and held is None and vault.challenge is not None:
            await _say(send, 401, b"{}", vault.challenge)
            return
        if headers.get("mcp-method") == "tools/call" and vault.afterwards is not None:
            vault.runs += 1
            await _say(send, vault.afterwards, b"{}", "Bearer")
            return
        await application(scope, receive, send)

    return front


async def _say(send: Any, status: int, body: bytes, challenge: str = "") -> None:
    headers = [(b"content-type", b"application/json")]
    if challenge:
        headers.append((b"www-authenticate", challenge.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served_vault(authority: Authority, era: Era = "modern") -> Iterator[tuple[Vault, Served]]:
    """The server on this machine."""

    def build(vault: Vault) -> Application:
        return speaking(era, vault_server(vault, authority).streamable_http_app())

    with served_behind(authority, build) as both:
        yield both


@contextmanager
def served_behind(
    authority: Authority, build: Callable[[Vault], Application]
) -> Iterator[tuple[Vault, Served]]:
    """The application of `build`, behind the same authorization."""
    vault = Vault()
    built: list[Application] = []

    async def late(scope: Message, receive: Any, send: Any) -> None:
        await built[0](scope, receive, send)

    served = Served(late)
    vault.url = served.url
    built.append(_fronted(vault, authority, build(vault)))
    with served:
        yield vault, served
