"""Saved prompts: who sees and changes them, and how they come into a message."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from chatapp.models import (
    Assistant,
    Attachment,
    Conversation,
    Member,
    MessageDraft,
    SavedPrompt,
    Turn,
)
from chatapp.models.presets.sharing import Audience
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}
GONE = "This prompt was deleted, or you can no longer use it."
STARTER_GONE = "This starter was deleted, or you can no longer use its assistant."
STARTERS = ["Draft the review", "Review {{incident}} of\n{{team}}"]


@pytest.fixture
def prompt(owner: Member) -> SavedPrompt:
    return SavedPrompt.objects.create(
        owner=owner, title="Weekly report", text="Report on {{week}} for {{team}}."
    )


@pytest.fixture
def review(owner: Member) -> Assistant:
    return Assistant.objects.create(owner=owner, name="Incident review", starters=STARTERS)


def share(row: SavedPrompt | Assistant, audience: Audience, group: Group | None = None) -> None:
    type(row).objects.filter(pk=row.pk).update(audience=audience, group=group)


def read(client: Client, address: str) -> Element:
    answer = client.get(address)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def list_titles(client: Client, query: str = "") -> list[str]:
    return [each.text for each in read(client, f"/prompts/{query}").one("main").all("h3")]


def save(client: Client, address: str, **values: Any) -> HttpResponse:
    fields: dict[str, Any] = {
        "title": "Greeting",
        "text": "Hello, {{name}}",
        "who": "owner",
        **values,
    }
    answer: Any = client.post(address, fields)
    return answer  # type: ignore[no-any-return]


def post(client: Client, path: str, /, htmx: bool = True, **values: Any) -> HttpResponse:
    answer: Any = client.post(f"/attach/{path}", values, headers=HTMX if htmx else {})
    return answer  # type: ignore[no-any-return]


def step(client: Client, path: str, /, htmx: bool = True, **values: Any) -> Element:
    return parse(post(client, path, htmx, **values).content.decode())


def fill_in(**values: str) -> dict[str, Any]:
    return {f"value-{name}": value for name, value in values.items()}


# --- who sees them --------------------------------------------------------------------------------
def test_prompts_are_for_their_owner_a_group_or_everyone(
    owner_client: Client,
    stranger: Member,
    stranger_client: Client,
    admin_client: Client,
    owner: Member,
    prompt: SavedPrompt,
) -> None:
    group = Group.objects.create(name="Writers")
    owner.groups.add(group)
    choice: dict[str, Any] = {"saved": str(prompt.pk)}

    def may_use(client: Client) -> bool:
        problems = step(client, "saved/form", **choice).all("p", class_="problem")
        assert [each.text for each in problems] == ([] if list_titles(client) else [GONE])
        return bool(list_titles(client))

    def find_users() -> list[bool]:
        return [may_use(each) for each in (owner_client, stranger_client, admin_client)]

    assert find_users() == [True, False, False]
    share(prompt, Audience.GROUP, group)
    assert find_users() == [True, False, False]
    stranger.groups.add(group)
    assert find_users() == [True, True, False]
    stranger.groups.remove(group)
    assert find_users() == [True, False, False]
    share(prompt, Audience.EVERYONE)
    assert find_users() == [True, True, True]
    for client in (stranger_client, admin_client):
        assert client.get(f"/prompts/{prompt.pk}/edit/").status_code == 404
        assert client.post(f"/prompts/{prompt.pk}/edit/").status_code == 404
        assert client.post(f"/prompts/{prompt.pk}/delete").status_code == 404
    assert SavedPrompt.objects.filter(pk=prompt.pk).exists()


def test_a_person_creates_changes_finds_and_deletes_a_prompt(owner_client: Client) -> None:
    answer = save(owner_client, "/prompts/new/", text="Hello, {{name}}\r\n")
    made = SavedPrompt.objects.get()
    assert answer["Location"] == f"/prompts/#prompt-{made.pk}"
    assert made.text == "Hello, {{name}}"
    save(owner_client, "/prompts/new/", title="Other", text="Bye")
    assert list_titles(owner_client) == ["Greeting", "Other"]
    assert list_titles(owner_client, "?q=hello") == ["Greeting"]
    assert list_titles(owner_client, "?q=nothing") == []
    address = f"/prompts/{made.pk}/edit/"
    assert "Asked for when the prompt is used: name." in read(owner_client, address).text
    save(owner_client, address, title="Greet", text="Hi")
    made.refresh_from_db()
    assert (made.title, made.text) == ("Greet", "Hi")
    owner_client.post(f"/prompts/{made.pk}/delete")
    assert list_titles(owner_client) == ["Other"]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"title": " "}, "This field is required."),
        ({"title": "\u200b"}, "This field is required."),
        ({"title": "x" * 81}, "at most 80 characters"),
        ({"text": " "}, "This field is required."),
        ({"text": "x" * 8_001}, "This text has 8001 characters. The limit is 8000."),
        ({"who": "everyone"}, "You can’t share with this group any more."),
    ],
)
def test_a_refused_prompt_stays_in_its_form_with_the_reason(
    owner_client: Client, values: dict[str, str], sentence: str
) -> None:
    typed = {"title": "Mine", "text": "My words", **values}
    answer = save(owner_client, "/prompts/new/", **typed)
    page = parse(answer.content.decode()).one("section", class_="editor")
    assert answer.status_code == 422
    assert sentence in page.text
    assert page.one("input", name="title")["value"] == typed["title"]
    assert page.one("textarea", name="text").text == typed["text"].strip()
    assert not SavedPrompt.objects.exists()


def test_a_person_has_at_most_so_many(
    owner_client: Client, prompt: SavedPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.conversations.saved_prompts.PROMPTS_PER_PERSON", 1)
    refused = save(owner_client, "/prompts/new/", text="My words")
    assert refused.status_code == 422
    assert "which is the limit. Delete one first." in refused.content.decode()
    assert "My words" in refused.content.decode()


# --- into a message -------------------------------------------------------------------------------
def test_a_prompt_is_filled_in_and_follows_what_was_typed(
    owner_client: Client, prompt: SavedPrompt
) -> None:
    choice: dict[str, Any] = {"saved": str(prompt.pk), "text": "Dear all,"}
    page = step(owner_client, "saved", **choice)
    assert [each.one("b").text for each in page.one("ul", class_="offers").all("li")] == [
        "Weekly report"
    ]
    asked = step(owner_client, "saved/form", **choice)
    fields = asked.one("form", class_="values-form").all("textarea")
    assert [each["name"] for each in fields] == ["value-week", "value-team"]
    values = fill_in(week="{{team}}\r\n", team=" Ops")
    filled = step(owner_client, "saved/fill", **choice, **values)
    text = "Dear all,\n\nReport on {{team}} for Ops."
    assert filled.one("textarea", name="prompt_text").text == text.replace("\n\n", " ")
    # With JavaScript, the page adds the text to what is in the box then.
    button = filled.one("button", class_="btn primary")
    assert (button["data-fill"], button["data-named"]) == ("Report on {{team}} for Ops.", "")
    # Without JavaScript, the same step leads to the box.
    page = step(owner_client, "saved/fill", htmx=False, **choice, **fill_in(week="12", team="Ops"))
    sent: dict[str, Any] = {
        each["name"]: each.attributes.get("value", "")
        for each in page.one("form", action="/attach/use").all("input")
    }
    assert sent["text"] == "Dear all,"
    box = step(owner_client, "use", htmx=False, **sent, prompt_text=text).one(id="message")
    assert "Report on {{team}} for Ops." in box.text


def test_missing_and_long_values_are_refused_with_what_was_entered(
    owner_client: Client, prompt: SavedPrompt
) -> None:
    choice: dict[str, Any] = {"saved": str(prompt.pk)}
    page = step(owner_client, "saved/fill", **choice, **fill_in(week="12", team=" "))
    assert "Fill in: team" in page.text
    assert page.one("textarea", name="value-week").text == "12"
    page = step(owner_client, "saved/fill", **choice, **fill_in(week="12", team="x" * 4_001))
    assert "“team” has 4,001 characters. The limit is 4,000." in page.text


def test_a_prompt_of_the_list_follows_the_draft_that_is_stored(
    owner_client: Client, owner: Member
) -> None:
    saved = SavedPrompt.objects.create(owner=owner, title="Bye", text="Good night.")
    chat = rows.turn(owner, Turn.State.DONE).conversation
    MessageDraft.objects.create(owner=owner, text="A new chat", client_id=uuid.uuid4())
    MessageDraft.objects.create(
        owner=owner, conversation=chat, text="In the chat", client_id=uuid.uuid4()
    )
    listed = read(owner_client, f"/prompts/?chat={chat.pk}").one(
        "form", action="/attach/saved/form"
    )
    fields: dict[str, Any] = {each["name"]: each["value"] for each in listed.all("input")}
    assert fields["chat"] == str(chat.pk)
    page = step(owner_client, "saved/form", htmx=False, **fields)
    assert page.one("textarea", name="prompt_text").text == "In the chat Good night."
    page = step(owner_client, "saved/form", htmx=False, saved=str(saved.pk), from_list="yes")
    assert page.one("textarea", name="prompt_text").text == "A new chat Good night."
    sent: dict[str, Any] = {
        each["name"]: each.attributes.get("value", "")
        for each in page.one("form", action="/attach/use").all("input")
    }
    assert sent["text"] == "A new chat"
    assert MessageDraft.objects.count() == 2


def test_another_persons_chat_is_not_found(
    stranger_client: Client, owner: Member, prompt: SavedPrompt
) -> None:
    share(prompt, Audience.EVERYONE)
    chat = rows.turn(owner, Turn.State.DONE).conversation
    fields: dict[str, Any] = {"saved": str(prompt.pk), "from_list": "yes", "chat": str(chat.pk)}
    assert post(stranger_client, "saved/form", **fields).status_code == 404
    assert post(stranger_client, "saved", chat=str(chat.pk)).status_code == 404
    listed = read(stranger_client, f"/prompts/?chat={chat.pk}")
    assert listed.one("main").all("input", name="chat") == []


def test_a_slash_suggests_saved_prompts_before_services(
    owner_client: Client, stranger_client: Client, prompt: SavedPrompt
) -> None:
    rows.service("weekly-news", title="News")
    for typed, found in [
        ("/", ["Weekly report", "News"]),
        ("/week", ["Weekly report", "News"]),
        ("/report", ["Weekly report"]),
        ("/nothing", []),
    ]:
        page = step(owner_client, "typed", text=typed)
        names = [name.text for each in page.all("li") for name in each.all("b")]
        assert names == found, typed
    assert "Weekly report" not in step(stranger_client, "typed", text="/week").text
    # What was typed to find the prompt is replaced.
    listed = step(owner_client, "typed", text="/week")
    offer: dict[str, Any] = dict(listed.one("form", action="/attach/saved/form").fields())
    asked = step(owner_client, "saved/form", text="/week", **offer)
    form = asked.one("form", class_="values-form").fields()
    values: dict[str, Any] = form | fill_in(week="12", team="Ops")
    filled = step(owner_client, "saved/fill", **values, text="/week")
    button = filled.one("button", class_="btn primary")
    assert (button["data-fill"], button["data-named"]) == ("Report on 12 for Ops.", "/week")
    assert filled.one("textarea", name="prompt_text").text == "Report on 12 for Ops."


@pytest.mark.parametrize("text", ["/shrug", "/etc:hosts"])
def test_a_message_that_looks_like_the_name_of_a_prompt_stays(
    owner_client: Client, prompt: SavedPrompt, text: str
) -> None:
    listed = step(owner_client, "saved", text=text).one("form", action="/attach/saved/form")
    values: dict[str, Any] = listed.fields() | fill_in(week="12", team="Ops")
    filled = step(owner_client, "saved/fill", **values, text=text)
    assert filled.one("button", class_="btn primary")["data-named"] == ""
    assert filled.one("textarea", name="prompt_text").text == f"{text} Report on 12 for Ops."


def test_characters_that_nobody_sees_are_left_out_of_the_texts_of_others(
    owner_client: Client, stranger_client: Client, owner: Member
) -> None:
    hidden = SavedPrompt.objects.create(
        owner=owner, title="Trap", text="Hello\u202e\U000e0041 you", audience=Audience.EVERYONE
    )
    page = step(stranger_client, "saved/form", saved=str(hidden.pk))
    assert page.one("button", class_="btn primary")["data-fill"] == "Hello you"
    page = step(owner_client, "saved/form", saved=str(hidden.pk))
    assert "\u202e" in page.one("button", class_="btn primary")["data-fill"]


# --- starters -------------------------------------------------------------------------------------
def test_a_starter_fills_the_box_and_keeps_the_assistant(
    owner_client: Client, review: Assistant
) -> None:
    fields: dict[str, Any] = {
        "assistant": str(review.pk),
        "assistant_version": review.version,
        "text": "Hi",
    }
    page = step(owner_client, "starter", htmx=False, starter="1", **fields)
    assert page.one("textarea", id="message").text == "Hi Draft the review"
    assert page.one("input", name="assistant")["value"] == str(review.pk)
    asked = step(owner_client, "starter", starter="2", **fields)
    names = [each["name"] for each in asked.one("form", class_="values-form").all("textarea")]
    assert names == ["value-incident", "value-team"]
    filled = step(
        owner_client, "saved/fill", starter="2", **fields, **fill_in(incident="42", team="Ops")
    )
    assert filled.one("textarea", name="prompt_text").text == "Hi Review 42 of Ops"
    expected = "Review 42 of\nOps"
    assert filled.one("button", class_="btn primary")["data-fill"] == expected


def test_a_starter_without_javascript_keeps_the_chosen_files(
    owner_client: Client, review: Assistant
) -> None:
    fields: dict[str, Any] = {"assistant": str(review.pk), "assistant_version": review.version}
    for number in ("1", "2"):
        files = [
            SimpleUploadedFile("notes.txt", b"Notes"),
            SimpleUploadedFile("x.zip", b"PK\x00\xff"),
        ]
        page = step(owner_client, "starter", htmx=False, starter=number, files=files, **fields)
        kept = Attachment.objects.latest("created_at")
        assert kept.name == "notes.txt"
        assert str(kept.pk) in {each["value"] for each in page.all("input", name="attachments")}
        assert "x.zip" in page.text
    assert Attachment.objects.count() == 2


def test_a_starter_proposes_what_was_entered_for_the_assistant(
    owner_client: Client, review: Assistant
) -> None:
    fields: dict[str, Any] = {"assistant": str(review.pk), "starter": "2", "variable-team": "Ops"}
    form = step(owner_client, "starter", **fields).one("form", class_="values-form")
    assert [each.text for each in form.all("textarea")] == ["", "Ops"]


@pytest.mark.parametrize("htmx", [True, False])
def test_a_prompt_that_is_gone_is_said_and_what_was_typed_stays(
    owner_client: Client, owner: Member, prompt: SavedPrompt, htmx: bool
) -> None:
    fields: dict[str, Any] = {"saved": str(prompt.pk), "text": "My words"}
    MessageDraft.objects.create(owner=owner, text="In the draft", client_id=uuid.uuid4())
    prompt.delete()
    for path in ("saved/form", "saved/fill"):
        page = step(owner_client, path, htmx, **fields)
        assert page.one("p", class_="problem").text == GONE
        if not htmx:
            form = page.one("form", class_="leave-picker").fields()
            assert form["text"] == "My words"
    page = step(owner_client, "saved/form", htmx=False, saved=fields["saved"], from_list="yes")
    assert page.one("form", class_="leave-picker").fields()["text"] == "In the draft"


def test_a_starter_of_somebody_else_or_none_is_not_found(
    owner_client: Client, stranger_client: Client, review: Assistant
) -> None:
    fields: dict[str, Any] = {"assistant": str(review.pk), "starter": "1"}

    def read_problem(client: Client, path: str, **values: Any) -> str:
        page = step(client, path, **values)
        assert "Draft the review" not in page.text
        return page.one("p", class_="problem").text

    assert read_problem(stranger_client, "starter", **fields) == STARTER_GONE
    assert read_problem(stranger_client, "saved/fill", **fields) == STARTER_GONE
    for number in ("0", "3", "-1", "x", "9" * 30, ""):
        wrong: dict[str, Any] = fields | {"starter": number}
        assert read_problem(owner_client, "starter", **wrong) == STARTER_GONE
    for saved in ("", "x", str(uuid.uuid4())):
        assert read_problem(owner_client, "saved/form", saved=saved) == GONE
    assert not Conversation.objects.exists()
