"""Tools as their services list them now, before a call of one is sent: the list that a decision was
made by may have grown old while a person thought about it."""

import asyncio
import logging
import uuid
from collections.abc import Iterable

from django.db.models.functions import Now

from chatapp.models import Member, Turn
from chatapp.storage import in_database
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.ledger import fetch_tools
from mcpconfig.models import Service

log = logging.getLogger(__name__)
LISTING_SECONDS = 20.0


async def list_anew(turn: Turn, call_ids: Iterable[uuid.UUID]) -> None:
    """Fetch the lists that are too old. A service that cannot be asked keeps the one that is known:
    the call itself then says what is wrong with it."""
    services = await in_database(_grown_old, list(call_ids))
    if not services:
        return
    person = await in_database(Member.objects.get, conversations=turn.conversation_id)
    acting = Acting.of(person, turn.conversation_id)
    await asyncio.gather(*(_list_one(service, acting) for service in services))


def _grown_old(call_ids: list[uuid.UUID]) -> list[Service]:
    called = Service.objects.filter(
        toolcall__in=call_ids, tools_fresh_until__lte=Now(), is_enabled=True
    )
    return list(called.distinct())


async def _list_one(service: Service, acting: Acting) -> None:
    try:
        await fetch_tools(service, acting=acting, total_seconds=LISTING_SECONDS)
    except OperationError as error:
        log.info("The tools of service %s could not be listed anew: %s", service.name, error)
