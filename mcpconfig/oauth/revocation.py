"""Revocation of tokens at their servers (RFC 7009) after their grants were deleted here. Best
effort, bounded, and never a reason to delay or fail the removal."""

import logging

import anyio
from channels.db import database_sync_to_async

from mcpconfig.models import OAuthRevocation
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.errors import OperationError

from .servers.http import AddressRules, OAuthHttp
from .servers.token_requests import Client, build_client_proof

logger = logging.getLogger(__name__)

MAX_SECONDS = 5.0
MAX_AT_ONCE = 50


async def send_revocations() -> None:
    """Send all stored revocations, together and within a few seconds. Each is tried once: a process
    deletes the rows that it takes, so that two processes do not both try."""
    noted = await database_sync_to_async(_claim_revocations)()
    with anyio.move_on_after(MAX_SECONDS):
        async with anyio.create_task_group() as group:
            for note in noted:
                group.start_soon(_revoke, note)


def _claim_revocations() -> list[OAuthRevocation]:
    noted = list(OAuthRevocation.objects.order_by("pk")[:MAX_AT_ONCE])
    return [note for note in noted if OAuthRevocation.objects.filter(pk=note.pk).delete()[0]]


async def _revoke(note: OAuthRevocation) -> None:
    try:
        held = oauth_secrets.decrypt_revocation(bytes(note.payload))
        client = Client(
            client_id=held["client_id"],
            method=held["method"],
            secret=held["secret"],
            issuer=held["issuer"],
        )
        rules = AddressRules(url=note.service_url, allows_private=note.allows_private_addresses)
        for hint in ("refresh_token", "access_token"):
            if held[hint]:
                await _send(OAuthHttp(rules), note, client, hint, held[hint])
    except OperationError as error:
        logger.info("A token could not be revoked at %s: %s", note.revocation_endpoint, error)


async def _send(
    http: OAuthHttp, note: OAuthRevocation, client: Client, hint: str, token: str
) -> None:
    form, headers = await build_client_proof(client)
    form |= {"token": token, "token_type_hint": hint}
    answer = await http.post_form(note.revocation_endpoint, "oauth/revoke", form, headers)
    if answer.status == 400 and client.method != "private_key_jwt":
        # Servers made with the MCP SDK require the secret in the form, too, whatever method was
        # agreed.
        form |= {"client_secret": client.secret}
        await http.post_form(note.revocation_endpoint, "oauth/revoke", form, headers)
