"""The way out to authorization servers, whose addresses a server named: the strictest side of the
outbound door, small JSON documents only, and a trace that keeps what is known to be harmless."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
from channels.db import database_sync_to_async
from mcp_types import LATEST_PROTOCOL_VERSION

from mcpconfig import trace
from mcpconfig.errors import OperationError, Refusal, broken_off, of_transport, timed_out
from mcpconfig.limits import LIMITS
from mcpconfig.masking import MASK
from mcpconfig.models import Service
from mcpconfig.network import check_url, named_client
from mcpconfig.wire import Wire

VISIT_SECONDS = 25.0

# The names by which a machine calls itself; a server there may sign in at another of its ports.
THIS_MACHINE = frozenset(("localhost", "127.0.0.1", "::1"))

# What a trace may keep of a token request, a registration and their answers; the rest is masked.
_HARMLESS = frozenset(
    ("grant_type", "client_id", "redirect_uri", "redirect_uris", "resource", "scope", "error")
    + ("token_type", "expires_in", "token_type_hint", "client_assertion_type", "client_name")
    + ("token_endpoint_auth_method", "grant_types", "response_types", "application_type")
    + ("subject_token_type", "requested_token_type", "issued_token_type", "audience")
    + ("code_challenge_method", "client_id_issued_at", "client_secret_expires_at")
)

_FAILURES = {
    "refused": "Nothing answers at {host}, where one signs in to the service.",
    "not_found": "The host {host}, where one signs in to the service, was not found.",
    "tls": "The certificate of {host}, where one signs in to the service, could not be verified.",
    "timeout": "{host}, where one signs in to the service, did not answer in time.",
    "too_large": "{host}, where one signs in to the service, sent more than is accepted.",
    "blocked_address": "The service names {host} for signing in, whose address is not allowed.",
    "configuration": "The service names an address at {host} for signing in that is not allowed.",
    "protocol": "{host}, where one signs in to the service, sent what is not accepted.",
}
_HINTS = {
    "blocked_address": "It must be a public one, or the service's own host in your own network.",
    "configuration": "Only https:// addresses without redirects are used.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `body` is None where it was no JSON object."""

    status: int
    body: dict[str, Any] | None
    challenges: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """The OAuth error code of a refusal, or an empty text."""
        code = (self.body or {}).get("error")
        return code if isinstance(code, str) else ""

    @property
    def is_temporary(self) -> bool:
        """Whether the server had trouble of its own, which says nothing about what was asked."""
        return self.status >= 500 or self.status in (408, 425, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Whose sign-in it is, as far as addresses go. `url` is the service's own."""

    url: str
    allows_private: bool

    @classmethod
    async def of(cls, service: Service) -> "Surroundings":
        """As the service is now: one of a person without an admin's rights stays outside."""
        fresh = Service.objects.select_related("owner").filter(pk=service.pk)
        found = await database_sync_to_async(fresh.first)()
        is_personal = found is None or found.is_personal
        return cls(
            url=service.url, allows_private=service.allows_private_addresses and not is_personal
        )

    @property
    def private_hosts(self) -> frozenset[str]:
        """Only the service's own host may be inside: what a server names must not lead to others,
        even where an admin has let this one service be there."""
        if not self.allows_private:
            return frozenset()
        own = httpx2.URL(self.url).host
        return THIS_MACHINE if own in THIS_MACHINE else frozenset((own,))

    def check(self, url: str) -> httpx2.URL:
        """The URL, if it may be used at all; its addresses are vetted when it is opened."""
        try:
            host = httpx2.URL(url).host
            return check_url(url, allows_private=host in self.private_hosts)
        except (httpx2.InvalidURL, OperationError) as error:
            message = "The service names an address for signing in that is not allowed."
            raise unusable(message) from error


def unusable(message: str, hint: str = _HINTS["configuration"]) -> OperationError:
    """The way to sign in is wrong, and will be until somebody changes it."""
    return OperationError(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )


@dataclass(slots=True)
class Door:
    """Fetches and posts for one sign-in step; every exchange is kept for the trace."""

    surroundings: Surroundings
    wire: Wire = field(default_factory=Wire)

    async def get(self, url: str, step: str) -> Answer:
        headers = {"accept": "application/json", "mcp-protocol-version": LATEST_PROTOCOL_VERSION}
        return await self._exchange("GET", url, step, headers, b"", b"")

    async def post_form(
        self, url: str, step: str, form: dict[str, str], headers: dict[str, str] | None = None
    ) -> Answer:
        sent = {
            "accept": "application/json",
            "content-type": "application/x-www-form-urlencoded",
            **(headers or {}),
        }
        shown = json.dumps(_harmless(form)).encode()
        return await self._exchange(
            "POST", url, step, sent, urlencode(form, errors="replace").encode(), shown
        )

    async def post_json(
        self, url: str, step: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Answer:
        sent = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
        shown = json.dumps(_harmless(body)).encode()
        return await self._exchange("POST", url, step, sent, json.dumps(body).encode(), shown)

    async def _exchange(
        self, method: str, url: str, step: str, headers: dict[str, str], body: bytes, shown: bytes
    ) -> Answer:
        parsed = self.surroundings.check(url)
        self.wire.reopen()
        seen = len(self.wire.exchanges)
        hosts = self.surroundings.private_hosts
        try:
            with anyio.fail_after(LIMITS.named_seconds):
                async with named_client(
                    self.wire, allows_private=bool(hosts), private_hosts=hosts
                ) as client:
                    request = client.build_request(method, parsed, headers=headers, content=body)
                    answer = _answer(await client.send(request))
        except (OperationError, httpx2.HTTPError, TimeoutError) as error:
            # A redirect is an answer like “nothing here”; it was not followed.
            status = next((each.status or 0 for each in self.wire.exchanges[seen:]), 0)
            if not 300 <= status < 400:
                raise _failed(error, parsed) from error
            answer = Answer(status=status, body=None)
        finally:
            for exchange in self.wire.exchanges[seen:]:
                exchange.rpc_method, exchange.params = step, None
                exchange.request_body, exchange.response_body = shown, bytearray()
        self.wire.exchanges[-1].response_body = _shown(method, answer)
        return answer


def _answer(response: httpx2.Response) -> Answer:
    """What came, of which nothing is understood but JSON objects."""
    challenges = tuple(response.headers.get_list("www-authenticate"))
    body: Any = None
    if "json" in response.headers.get("content-type", ""):
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            body = None
    known = body if isinstance(body, dict) else None
    return Answer(status=response.status_code, body=known, challenges=challenges)


def _failed(error: Exception, url: httpx2.URL) -> OperationError:
    """The failure in words about the server where one signs in. No tool call has begun."""
    known: OperationError | None
    if isinstance(error, OperationError):
        known = error
    else:
        known = error.error if isinstance(error, Refusal) else of_transport(error)
    kind = (known or (timed_out() if isinstance(error, TimeoutError) else broken_off())).kind
    host = url.raw_host.decode("ascii")
    message = _FAILURES.get(kind, "{host}, where one signs in to the service, broke off.")
    return OperationError(
        kind=kind,
        message=message.format(host=host),
        hint=_HINTS.get(kind, "Try again later."),
        was_sent=False,
        is_definite=True,
    )


def _harmless(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name in _HARMLESS else MASK for name, value in values.items()}


def _shown(method: str, answer: Answer) -> bytearray:
    """A fetched document as it is; of what a POST brought back only what is known as harmless.
    A fetch that failed may have brought what lies inside a network: nothing of it is kept."""
    body = answer.body
    if body is None or (method == "GET" and answer.status != 200):
        return bytearray()
    kept = body if method == "GET" else _harmless(body)
    return bytearray(json.dumps(kept).encode())


@asynccontextmanager
async def visiting(service: Service, operation: str) -> AsyncIterator[Door]:
    """A door for one operation, within a deadline for all its steps, traced at the end."""
    door = Door(await Surroundings.of(service))
    try:
        with anyio.fail_after(VISIT_SECONDS):
            yield door
    except TimeoutError as error:
        raise _failed(error, httpx2.URL(service.url)) from error
    finally:
        with anyio.move_on_after(LIMITS.goodbye_seconds, shield=True):
            await trace.keep(service, operation, door.wire, [])
