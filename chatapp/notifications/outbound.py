"""Requests to push services and webhooks, through the guarded client of services: vetted addresses,
no redirects, bounded answers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import httpx2
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.net.addresses import check_url, resolve_vetted_addresses
from mcpconfig.net.outbound import create_restricted_client
from mcpconfig.net.wire import Wire
from mcpconfig.values.errors import OperationError, disconnect_error, translate_transport_error

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SEND_SECONDS = 10.0
MAX_ADDRESS_CHARACTERS = 2_000
FAILURES: "dict[str, StrOrPromise]" = {
    "refused": gettext_lazy("Nothing answers at %(host)s."),
    "not_found": gettext_lazy("The host %(host)s was not found."),
    "tls": gettext_lazy("The certificate of %(host)s could not be verified."),
    "timeout": gettext_lazy("%(host)s did not answer in time."),
    "too_large": gettext_lazy("%(host)s sent a response that is too large."),
    "blocked_address": gettext_lazy("%(host)s leads to an address that is not allowed."),
    "configuration": gettext_lazy("%(host)s redirects to another address, which is not followed."),
    "protocol": gettext_lazy("%(host)s sent a response that is not accepted."),
}


class NotSent(Exception):
    """A notification was not accepted. The text names the host, never the rest of an address.
    `status` is the HTTP status of the answer, 0 without one."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class BadAddress(ValueError):
    """An address that notifications are not sent to. The text tells people why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One request."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str]
    body: bytes


def check_address(address: str, private_hosts: Collection[str]) -> str:
    """Return the host of an address that notifications may be sent to. Raises BadAddress.

    Only https and public hosts are allowed, and besides the private hosts that the operator named.
    """
    if len(address) > MAX_ADDRESS_CHARACTERS or not address.isprintable() or " " in address:
        raise BadAddress(_("The address can’t be read."))
    try:
        host = httpx2.URL(address).host
        parsed = check_url(address, allows_private=host in private_hosts)
    except httpx2.InvalidURL:
        raise BadAddress(_("The address can’t be read.")) from None
    except OperationError as error:
        raise BadAddress(error.message) from None
    return parsed.host


async def check_host(address: str, private_hosts: Collection[str]) -> None:
    """Look up the host of an address. Raises BadAddress if it leads into a private network."""
    url = httpx2.URL(address)
    try:
        await resolve_vetted_addresses(
            url.host,
            url.port or (443 if url.scheme == "https" else 80),
            allows_private=url.host in private_hosts,
        )
    except OperationError as error:
        raise BadAddress(_explain(error, url.host)) from error


async def send(outgoing: Outgoing, private_hosts: Collection[str]) -> None:
    """Send one request. Raises NotSent unless it was accepted, and BadAddress."""
    host = check_address(outgoing.url, private_hosts)
    try:
        with anyio.fail_after(SEND_SECONDS):
            async with create_restricted_client(
                Wire(), allows_private=bool(private_hosts), private_hosts=private_hosts
            ) as client:
                answer = await client.request(
                    outgoing.method,
                    outgoing.url,
                    headers=dict(outgoing.headers),
                    content=outgoing.body,
                )
    except (OperationError, httpx2.HTTPError, TimeoutError) as error:
        known = error if isinstance(error, OperationError) else translate_transport_error(error)
        raise NotSent(_explain(known or disconnect_error(), host)) from error
    if not answer.is_success:
        sentence = _("%(host)s answered with the status %(status)d.")
        raise NotSent(sentence % {"host": host, "status": answer.status_code}, answer.status_code)


def _explain(error: OperationError, host: str) -> str:
    text = FAILURES.get(error.kind, _("%(host)s closed the connection before it answered."))
    return str(text) % {"host": host}
