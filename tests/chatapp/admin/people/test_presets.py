"""Assistants and saved prompts in the admin: listed, deleted, and private texts are not shown."""

import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from chatapp.models import Assistant, LogEntry, Member, SavedPrompt
from chatapp.models.presets.sharing import Audience

pytestmark = pytest.mark.django_db
MARK = "Plum-7f3c"


def read(client: Client, address: str) -> str:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    content = BeautifulSoup(answer.content, "html.parser").select_one("#content")
    return content.get_text(" ") if content else ""


@pytest.mark.parametrize("kind", ["assistant", "savedprompt"])
def test_admins_see_and_delete_rows_but_not_the_texts_of_private_ones(
    admin_client: Client, owner: Member, kind: str
) -> None:
    row: Any
    if kind == "assistant":
        row = Assistant.objects.create(
            owner=owner, name="Review", instructions=MARK, description=MARK, starters=[MARK]
        )
    else:
        row = SavedPrompt.objects.create(owner=owner, title="Review", text=MARK)
    listed, address = f"/admin/chatapp/{kind}/", f"/admin/chatapp/{kind}/{row.pk}"
    assert "Review" in read(admin_client, listed)
    assert MARK not in read(admin_client, listed)
    page = read(admin_client, f"{address}/change/")
    assert "owner" in page
    assert MARK not in page
    type(row).objects.update(audience=Audience.EVERYONE)
    assert MARK in read(admin_client, f"{address}/change/")
    admin_client.post(f"{address}/delete/", {"post": "yes"})
    assert not type(row).objects.exists()


@pytest.mark.parametrize("way", ["page", "list"])
@pytest.mark.parametrize("kind", ["assistant", "savedprompt"])
def test_a_deletion_is_logged_and_the_owner_sees_it(
    admin_client: Client, owner_client: Client, owner: Member, kind: str, way: str
) -> None:
    row: Any
    if kind == "assistant":
        row = Assistant.objects.create(owner=owner, name="Review", instructions=MARK)
    else:
        row = SavedPrompt.objects.create(owner=owner, title="Review", text=MARK)
    listed = f"/admin/chatapp/{kind}/"
    if way == "page":
        admin_client.post(f"{listed}{row.pk}/delete/", {"post": "yes"})
    else:
        chosen = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
        admin_client.post(listed, chosen)
    entry = LogEntry.objects.get(kind=LogEntry.Kind.PRESET_DELETED)
    assert (entry.actor_name, entry.person_id) == ("admin", owner.pk)
    named = "assistant Review" if kind == "assistant" else "saved prompt Review"
    assert json.loads(entry.data) == {"of": named}
    answer: Any = owner_client.get("/log/")
    (line, *_others) = BeautifulSoup(answer.content, "html.parser").select(".entry")
    shown = " ".join(line.get_text(" ").split())
    assert "Assistant or saved prompt deleted in the admin" in shown
    assert f"{named} · by admin" in shown


def test_what_the_owner_deletes_is_not_logged(owner_client: Client, owner: Member) -> None:
    row = SavedPrompt.objects.create(owner=owner, title="Review", text=MARK)
    owner_client.post(f"/prompts/{row.pk}/delete")
    assert not SavedPrompt.objects.exists()
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.PRESET_DELETED).exists()


@pytest.mark.parametrize(
    ("kind", "guess"),
    [
        ("assistant", "instructions__startswith=P"),
        ("assistant", "description__contains=Plum"),
        ("savedprompt", "text__startswith=P"),
    ],
)
def test_no_private_text_can_be_guessed(
    admin_client: Client, owner: Member, kind: str, guess: str
) -> None:
    address = f"/admin/chatapp/{kind}/"
    assert admin_client.get(f"{address}?person=id:{owner.pk}").status_code == 200
    assert admin_client.get(f"{address}?{guess}").status_code == 400
