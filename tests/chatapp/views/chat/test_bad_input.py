"""What people paste and type by mistake or in other scripts: clear words, and nothing is lost."""

import json
from typing import Any

import pytest
from django.test import Client

from chatapp.models import Conversation, Member, Turn
from chatapp.rendering.markdown.stream import render_markdown
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
FAMILY = "👩\u200d👩\u200d👧"
TEXTS = {
    "hebrew": "שלום, מה שלומך?",
    "mixed": "كم يكلف iPhone 15 في €؟",
    "emoji": f"{FAMILY} 🇩🇪 ❤️",
    "marks": "e\u0301 and \u200fright",
}


def send(client: Client, text: str, **options: Any) -> Any:
    return client.post("/c/new/messages", {"text": text, "model": rows.MODEL}, **options)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_other_scripts_and_emoji_are_stored_shown_and_exported_unchanged(
    owner_client: Client, owner: Member, text: str
) -> None:
    send(owner_client, text)
    chat = Conversation.objects.get(owner=owner)
    assert chat.turns.get().question.parts.get().text == text
    page = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    bubble = page.one(class_="bubble")
    assert text in bubble.text
    assert page.one("h1")["dir"] == "auto"
    wanted = {"format": "json", "tools": "none"}
    exported = owner_client.get(f"/c/{chat.pk}/export", wanted).content.decode()
    assert json.dumps(text, ensure_ascii=False)[1:-1] in exported


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_answer_in_other_scripts_is_shown_unchanged(text: str) -> None:
    assert parse(render_markdown(text)).text == text


@pytest.mark.parametrize("mark", ["x", "ש", "🙂"])
def test_a_title_of_500_characters_is_refused_and_stays_in_its_box(
    owner_client: Client, owner: Member, mark: str
) -> None:
    chat = rows.turn(owner, Turn.State.DONE).conversation
    title = chat.title
    answer = owner_client.post(f"/c/{chat.pk}/rename", {"title": mark * 500})
    form = parse(answer.content.decode()).one("form", class_="rename")
    assert answer.status_code == 422
    assert form.one(role="alert").text == "This title has 500 characters. The limit is 80."
    assert form.one("input", name="title")["value"] == mark * 500
    assert Conversation.objects.get(pk=chat.pk).title == title


@pytest.mark.parametrize("mark", ["x", "ש", FAMILY])
def test_a_long_first_line_makes_a_title_that_fits(
    owner_client: Client, owner: Member, mark: str
) -> None:
    send(owner_client, mark * 500)
    chat = Conversation.objects.get(owner=owner)
    assert 0 < len(chat.title) <= 80
    assert chat.title.removesuffix("…") in mark * 500
    assert chat.turns.get().question.parts.get().text == mark * 500


def test_ten_megabytes_are_refused_and_the_draft_and_chat_stay(
    owner_client: Client, owner: Member
) -> None:
    chat = rows.turn(owner, Turn.State.DONE).conversation
    owner_client.post("/draft/", {"text": "What I had written", "chat": str(chat.pk)})
    values = {"text": "x" * 10_000_000, "model": rows.MODEL}
    answer = owner_client.post(f"/c/{chat.pk}/messages", values, headers=HTMX)
    assert answer.status_code == 413
    assert "100,000" in parse(answer.content.decode()).one("p").text
    assert chat.turns.count() == 1
    page = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    assert page.one(id="message").text == "What I had written"
