"""Puts the demo service among the services, with a few notes, and takes it away when it is off."""

import logging

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction

from chatapp.models import Note
from mcpconfig import ledger
from mcpconfig.intake import sort_out
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.results import Tool

from .notebook import notebook_server

log = logging.getLogger(__name__)

NAME = "notebook"
URL = "builtin:notebook"
TITLE = "Demo notebook"
DESCRIPTION = (
    "A demo: a small notebook that ships with this application and holds no real data. "
    "An admin can switch it off."
)
# Tells a service that DEMO=0 switched off from one that an admin did: only the first comes back.
SWITCHED_OFF = "A demo, switched off by DEMO=0. DEMO=1 brings it back."
NOTES = {
    "Groceries": "- oat milk\n- bread\n- lemons\n- the good coffee",
    "Ideas": (
        "1. A paper boat that survives the bath.\n"
        "2. Milk bottles as lanterns for the garden.\n"
        "3. Write to Grace about the lighthouse keys."
    ),
    "Old ideas": "- A clock that runs backwards\n- Ice cubes in the shape of fish",
    "Reading list": (
        "| Book | State |\n|---|---|\n| *The Lighthouse* | half way |\n| *Salt and Bread* | next |"
    ),
    "Weekend plan": (
        "**Saturday:** market, then the harbour.\n\n**Sunday:** nothing, if it can be helped."
    ),
}


def seed() -> None:
    """Makes the stored service fit `settings.DEMO`. Any number of times, by any process."""
    with transaction.atomic():
        if settings.DEMO:
            offer()
        else:
            withdraw()


def offer() -> None:
    """Leaves alone what an admin did: a service of that name, a switch, a tool taken back."""
    service, is_new = Service.objects.get_or_create(
        name=NAME, defaults={"title": TITLE, "description": DESCRIPTION, "url": URL}
    )
    if service.url != URL:
        log.warning("The demo notebook is not offered: another service is called %s.", NAME)
        return
    if service.description == SWITCHED_OFF:
        service.is_enabled, service.description = True, DESCRIPTION
        service.save(update_fields=["is_enabled", "description"])
    confirm(ledger.remember_tools(service, tools_in_memory()))
    if is_new and not Note.objects.exists():
        Note.objects.bulk_create(Note(title=title, text=text) for title, text in NOTES.items())


def withdraw() -> None:
    Service.objects.filter(name=NAME, url=URL, is_enabled=True).update(
        is_enabled=False, description=SWITCHED_OFF
    )


def confirm(definitions: list[ToolDefinition]) -> None:
    """Confirms what this release ships. A tool that was confirmed once and is no more was taken
    back by an admin, and stays so."""
    for definition in definitions:
        setting, is_new = ToolSetting.objects.get_or_create(
            service=definition.service,
            name=definition.name,
            defaults={"confirmed_hash": definition.hash},
        )
        if setting.confirmed_hash and setting.confirmed_hash != definition.hash:
            setting.confirmed_hash = definition.hash
            setting.save(update_fields=["confirmed_hash"])


def tools_in_memory() -> list[Tool]:
    """The tools as a client would list them, without a connection."""
    tools, _ = sort_out(async_to_sync(notebook_server().list_tools)())
    return tools
