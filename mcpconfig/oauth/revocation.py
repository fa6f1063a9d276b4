"""Making tokens worthless where they came from (RFC 7009), once their grants are gone from here:
best effort and bounded, never in the way of what a person wanted to remove."""

import logging

import anyio
from channels.db import database_sync_to_async

from mcpconfig.errors import OperationError
from mcpconfig.models import OAuthRevocation

from . import sealed
from .door import Door, Surroundings
from .token_requests import Client, proof

logger = logging.getLogger(__name__)

SECONDS = 5.0
AT_ONCE = 50


async def revoke_noted() -> None:
    """Revoke all that is noted, together and within a few seconds. Each is tried once: whoever
    takes a note deletes it first, so that two processes do not both try."""
    noted = await database_sync_to_async(_take)()
    with anyio.move_on_after(SECONDS):
        async with anyio.create_task_group() as group:
            for note in noted:
                group.start_soon(_revoke, note)


def _take() -> list[OAuthRevocation]:
    noted = list(OAuthRevocation.objects.order_by("pk")[:AT_ONCE])
    return [note for note in noted if OAuthRevocation.objects.filter(pk=note.pk).delete()[0]]


async def _revoke(note: OAuthRevocation) -> None:
    try:
        held = sealed.open_revocation(bytes(note.payload))
        client = Client(
            client_id=held["client_id"],
            method=held["method"],
            secret=held["secret"],
            issuer=held["issuer"],
        )
        surroundings = Surroundings(
            url=note.service_url, allows_private=note.allows_private_addresses
        )
        for hint in ("refresh_token", "access_token"):
            if held[hint]:
                await _send(Door(surroundings), note, client, hint, held[hint])
    except OperationError as error:
        logger.info("A token could not be revoked at %s: %s", note.revocation_endpoint, error)


async def _send(door: Door, note: OAuthRevocation, client: Client, hint: str, token: str) -> None:
    form, headers = await proof(client)
    form |= {"token": token, "token_type_hint": hint}
    answer = await door.post_form(note.revocation_endpoint, "oauth/revoke", form, headers)
    if answer.status == 400 and client.method != "private_key_jwt":
        # Servers made with the MCP SDK want the secret in the form, too, whatever was agreed.
        form |= {"client_secret": client.secret}
        await door.post_form(note.revocation_endpoint, "oauth/revoke", form, headers)
