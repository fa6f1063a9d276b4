"""HTTP requests to authorization servers, whose addresses a server named: the restricted client,
small JSON documents only, and a trace that stores only harmless fields."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import anyio
import httpx2
from channels.db import database_sync_to_async
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from mcp_types import LATEST_PROTOCOL_VERSION

from mcpconfig.models import Service
from mcpconfig.net.addresses import check_url
from mcpconfig.net.outbound import create_restricted_client
from mcpconfig.net.wire import Wire
from mcpconfig.trace import recording
from mcpconfig.values.errors import (
    OperationError,
    Refusal,
    disconnect_error,
    timeout_error,
    translate_transport_error,
)
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.masking import MASK

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MAX_SECONDS = 25.0

# The names of the local machine; a server there may sign in at another of its ports.
LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))

# The fields of token requests, registrations and their answers that the trace stores; all others
# are masked.
_TRACED_FIELDS = frozenset(
    ("grant_type", "client_id", "redirect_uri", "redirect_uris", "resource", "scope", "error")
    + ("token_type", "expires_in", "token_type_hint", "client_assertion_type", "client_name")
    + ("token_endpoint_auth_method", "grant_types", "response_types", "application_type")
    + ("subject_token_type", "requested_token_type", "issued_token_type", "audience")
    + ("code_challenge_method", "client_id_issued_at", "client_secret_expires_at")
)

_FAILURES = {
    "refused": gettext_lazy("Nothing answers at %(host)s, the service’s sign-in server."),
    "not_found": gettext_lazy("The service’s sign-in server %(host)s was not found."),
    "tls": gettext_lazy(
        "The certificate of the service’s sign-in server %(host)s could not be verified."
    ),
    "timeout": gettext_lazy("The service’s sign-in server %(host)s did not answer in time."),
    "too_large": gettext_lazy(
        "The service’s sign-in server %(host)s sent a response that is too large."
    ),
    "blocked_address": gettext_lazy(
        "The address of the service’s sign-in server %(host)s is not allowed."
    ),
    "configuration": gettext_lazy(
        "The service names a sign-in address at %(host)s that is not allowed."
    ),
    "protocol": gettext_lazy(
        "The service’s sign-in server %(host)s sent a response that is not accepted."
    ),
}
_HINTS = {
    "blocked_address": gettext_lazy(
        "It must be public, or the service’s own host in your own network."
    ),
    "configuration": gettext_lazy("Only https:// addresses without redirects are used."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer. `body` is None if it was no JSON object."""

    status: int
    body: dict[str, Any] | None
    challenges: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """The OAuth error code of a refusal; empty if there is none."""
        code = (self.body or {}).get("error")
        return code if isinstance(code, str) else ""

    @property
    def is_temporary(self) -> bool:
        """Whether the server itself had a failure, which says nothing about the request."""
        return self.status >= 500 or self.status in (408, 425, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """Which addresses a sign-in may use. `url` is that of the service."""

    url: str
    allows_private: bool

    @classmethod
    async def of(cls, service: Service) -> "AddressRules":
        """Return the rules for the service as it is now: one of a person without admin rights may
        use no private address."""
        if service.pk is None:  # an admin is adding it
            is_personal = service.is_personal
        else:
            fresh = Service.objects.select_related("owner").filter(pk=service.pk)
            found = await database_sync_to_async(fresh.first)()
            is_personal = found is None or found.is_personal
        return cls(
            url=service.url, allows_private=service.allows_private_addresses and not is_personal
        )

    @property
    def private_hosts(self) -> frozenset[str]:
        """Only the service's own host may be private: a server must not lead to other private
        hosts, even if an admin allowed private addresses for this service."""
        if not self.allows_private:
            return frozenset()
        own = httpx2.URL(self.url).host
        return LOOPBACK_NAMES if own in LOOPBACK_NAMES else frozenset((own,))

    def check(self, url: str) -> httpx2.URL:
        """Return the URL if it is allowed; its addresses are checked when it is opened."""
        try:
            host = httpx2.URL(url).host
            return check_url(url, allows_private=host in self.private_hosts)
        except (httpx2.InvalidURL, OperationError) as error:
            message = _("The service names a sign-in address that is not allowed.")
            raise sign_in_setup_error(message) from error


def sign_in_setup_error(message: str, hint: "StrOrPromise" = "") -> OperationError:
    """The way to sign in is wrong, and stays so until somebody changes it."""
    return OperationError(
        kind="configuration",
        message=message,
        hint=str(hint or _HINTS["configuration"]),
        was_sent=False,
        is_definite=True,
    )


@dataclass(slots=True)
class OAuthHttp:
    """Sends the requests of one sign-in step; every exchange is recorded for the trace."""

    rules: AddressRules
    wire: Wire = field(default_factory=Wire)

    async def get(self, url: str, step: str) -> HttpAnswer:
        headers = {"accept": "application/json", "mcp-protocol-version": LATEST_PROTOCOL_VERSION}
        return await self._exchange("GET", url, step, headers, b"", b"")

    async def post_form(
        self, url: str, step: str, form: dict[str, str], headers: dict[str, str] | None = None
    ) -> HttpAnswer:
        sent = {
            "accept": "application/json",
            "content-type": "application/x-www-form-urlencoded",
            **(headers or {}),
        }
        shown = json.dumps(_mask_fields(form)).encode()
        return await self._exchange(
            "POST", url, step, sent, urlencode(form, errors="replace").encode(), shown
        )

    async def post_json(
        self, url: str, step: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> HttpAnswer:
        sent = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
        shown = json.dumps(_mask_fields(body)).encode()
        return await self._exchange("POST", url, step, sent, json.dumps(body).encode(), shown)

    async def _exchange(
        self, method: str, url: str, step: str, headers: dict[str, str], body: bytes, shown: bytes
    ) -> HttpAnswer:
        parsed = self.rules.check(url)
        self.wire.reopen()
        seen = len(self.wire.exchanges)
        hosts = self.rules.private_hosts
        try:
            with anyio.fail_after(LIMITS.named_seconds):
                async with create_restricted_client(
                    self.wire, allows_private=bool(hosts), private_hosts=hosts
                ) as client:
                    request = client.build_request(method, parsed, headers=headers, content=body)
                    answer = _parse_answer(await client.send(request))
        except (OperationError, httpx2.HTTPError, TimeoutError) as error:
            # A redirect counts as "not found"; it was not followed.
            status = next((each.status or 0 for each in self.wire.exchanges[seen:]), 0)
            if not 300 <= status < 400:
                raise _translate_failure(error, parsed) from error
            answer = HttpAnswer(status=status, body=None)
        finally:
            for exchange in self.wire.exchanges[seen:]:
                exchange.rpc_method, exchange.params = step, None
                exchange.request_body, exchange.response_body = shown, bytearray()
        self.wire.exchanges[-1].response_body = _build_traced_body(method, answer)
        return answer


def _parse_answer(response: httpx2.Response) -> HttpAnswer:
    """Return the answer; only a JSON object is parsed."""
    challenges = tuple(response.headers.get_list("www-authenticate"))
    body: Any = None
    if "json" in response.headers.get("content-type", ""):
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            body = None
    known = body if isinstance(body, dict) else None
    return HttpAnswer(status=response.status_code, body=known, challenges=challenges)


def _translate_failure(error: Exception, url: httpx2.URL) -> OperationError:
    """Return the failure with a message about the authorization server. No tool call has begun."""
    known: OperationError | None
    if isinstance(error, OperationError):
        known = error
    else:
        known = error.error if isinstance(error, Refusal) else translate_transport_error(error)
    kind = (
        known or (timeout_error() if isinstance(error, TimeoutError) else disconnect_error())
    ).kind
    host = url.raw_host.decode("ascii")
    message = _FAILURES.get(kind, _("The service’s sign-in server %(host)s closed the connection."))
    return OperationError(
        kind=kind,
        message=message % {"host": host},
        hint=str(_HINTS.get(kind, _("Try again later."))),
        was_sent=False,
        is_definite=True,
    )


def _mask_fields(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name in _TRACED_FIELDS else MASK for name, value in values.items()}


def _build_traced_body(method: str, answer: HttpAnswer) -> bytearray:
    """Return a fetched document unchanged, and only harmless fields of the answer to a POST.
    Nothing of a failed GET is returned: it may come from inside a network."""
    body = answer.body
    if body is None or (method == "GET" and answer.status != 200):
        return bytearray()
    kept = body if method == "GET" else _mask_fields(body)
    return bytearray(json.dumps(kept).encode())


@asynccontextmanager
async def open_oauth_http(service: Service, operation: str) -> AsyncIterator[OAuthHttp]:
    """Yield the client of one operation, with one deadline for all steps, and record its exchanges
    at the end."""
    http = OAuthHttp(await AddressRules.of(service))
    try:
        with anyio.fail_after(MAX_SECONDS):
            yield http
    except TimeoutError as error:
        raise _translate_failure(error, httpx2.URL(service.url)) from error
    finally:
        with anyio.move_on_after(LIMITS.goodbye_seconds, shield=True):
            await recording.record_exchanges(service, operation, http.wire, [])
