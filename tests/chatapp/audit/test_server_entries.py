"""Whose act the log calls a change: the server's where it works by itself, and else that of whoever
is at the page or the command line."""

import asyncio

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.audit import audit_log
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import LogEntry, Member, PolicyRule
from chatapp.server.database import in_database
from mcpconfig.models import OAuthGrant, Service

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def last_actor() -> str:
    return LogEntry.objects.latest("position").actor_name


async def test_what_the_server_changes_by_itself_is_the_act_of_nobody(
    runtime: EngineRuntime, owner: Member, admin: Member, admin_client: Client
) -> None:
    """A sign-in that no longer fits, for example, which the next call of a turn finds."""
    service = await in_database(Service.objects.create, name="bank", url="https://bank.example")
    signed_in = {"person": owner, "connected_at": timezone.now()}
    grant = await in_database(OAuthGrant.objects.create, service=service, **signed_in)
    before, swept = await in_database(audit_log.read_end), asyncio.Event()

    async def sweep() -> None:
        await in_database(PolicyRule.objects.create, name="No payments", effect="deny")
        await in_database(grant.delete)
        swept.set()

    runtime.engine._spawn(sweep)
    await asyncio.wait_for(swept.wait(), 15)
    told = LogEntry.objects.filter(position__gt=before.position)
    kinds = [(each.kind, each.actor_id, each.actor_name) async for each in told]
    assert kinds == [("policy.changed", None, ""), ("service.disconnected", None, "")]
    listed = await in_database(lambda: admin_client.get("/admin/chatapp/logentry/").content)
    assert ">server</td>" in listed.decode()


async def test_work_off_the_event_loop_is_the_act_of_whoever_asked_for_it() -> None:
    for who in (audit_log.Who(id=7, name="root"), audit_log.Who(id=8, name="ada")):
        with audit_log.acting_as(lambda who=who: who):  # type: ignore[misc]
            await in_database(PolicyRule.objects.create, name="No payments", effect="deny")
        assert await in_database(last_actor) == who.name
