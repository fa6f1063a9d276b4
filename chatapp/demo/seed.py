"""Adds the demo service and a few notes, and switches the service off when the demo is off."""

import json
import logging
from pathlib import Path

from django.conf import settings
from django.db import transaction

from chatapp.models import Note
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.services import tool_definitions
from mcpconfig.values.results import Tool

log = logging.getLogger(__name__)

TOOLS = Path(__file__).with_name("tools.json")
NAME = "notebook"
URL = "builtin:notebook"
TITLE = "Demo notebook"
DESCRIPTION = (
    "A demo: a small notebook that ships with this application and holds no real data. "
    "An admin can switch it off."
)
# Marks a service that DEMO=0 switched off. One that an admin switched off stays off.
SWITCHED_OFF = "A demo, switched off by DEMO=0. DEMO=1 brings it back."
# A new note harms nothing here, so that the demo also has a write that runs without asking.
LEVELS = {"create_note": ToolSetting.Level.LOW}
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
    """Make the stored service match `settings.DEMO`. May run any number of times in any process."""
    with transaction.atomic():
        if settings.DEMO:
            offer()
        else:
            withdraw()


def offer() -> None:
    """Add the service. Changes of an admin stay: another service of that name, a switch."""
    texts = {"title": TITLE, "description": DESCRIPTION, "url": URL}
    service, is_new = Service.objects.get_or_create(
        name=NAME, defaults={**texts, "visibility": Service.Visibility.EVERYONE}
    )
    if service.url != URL:
        log.warning("The demo notebook is not offered: another service is called %s.", NAME)
        return
    if service.description == SWITCHED_OFF:
        service.is_enabled, service.description = True, DESCRIPTION
        service.save(update_fields=["is_enabled", "description"])
    confirm(tool_definitions.store_tools(service, list_own_tools()))
    if is_new and not Note.objects.exists():
        Note.objects.bulk_create(Note(title=title, text=text) for title, text in NOTES.items())


def withdraw() -> None:
    Service.objects.filter(name=NAME, url=URL, is_enabled=True).update(
        is_enabled=False, description=SWITCHED_OFF
    )


def confirm(definitions: list[ToolDefinition]) -> None:
    """Confirm the definitions of this release.

    A tool that an admin unconfirmed stays unconfirmed. A new installation has the risks of
    `LEVELS`, as an admin could set them.
    """
    for definition in definitions:
        setting, is_new = ToolSetting.objects.get_or_create(
            service=definition.service,
            name=definition.name,
            defaults={
                "confirmed_hash": definition.hash,
                "level": LEVELS.get(definition.name, ""),
            },
        )
        if setting.confirmed_hash and setting.confirmed_hash != definition.hash:
            setting.confirmed_hash = definition.hash
            setting.save(update_fields=["confirmed_hash"])


def list_own_tools() -> list[Tool]:
    """Return the tools as a client would list them. They are stored in a file, because every start
    compares them and importing the MCP SDK to build them would take half of its time."""
    return [Tool(**each) for each in json.loads(TOOLS.read_text())]
