"""The page of what the assistant remembers: a person's own, with nothing typed lost."""

import pytest
from django.test import Client

from chatapp.models import LogEntry, Member, Memory
from chatapp.models.conversations import memory as limits
from chatapp.rendering.pages.log import build_line
from chatapp.views.account.memory import KNOWN
from tests.dom_tree import Element, parse

pytestmark = pytest.mark.django_db
LONG = "x" * (limits.MEMORY_CHARACTERS + 1)


@pytest.fixture
def fact(owner: Member) -> Memory:
    return Memory.keep(owner, "I like tea.", tainted_by="mail")[0]


def page(client: Client) -> Element:
    return parse(client.get("/memory/").content.decode())


def test_the_page_shows_every_fact_and_whose_words_led_to_it(
    owner_client: Client, fact: Memory
) -> None:
    shown = page(owner_client).one(id=f"fact-{fact.pk}")
    assert "I like tea." in shown.text
    assert any(each.text == "mail" for each in shown.all("b"))


def test_an_empty_page_says_how_to_begin(owner_client: Client) -> None:
    assert page(owner_client).with_class("nothing")


def test_the_menu_leads_there(owner_client: Client) -> None:
    home = parse(owner_client.get("/").content.decode())
    assert home.one("a", href="/memory/").text.strip()


def test_a_person_adds_a_fact(owner_client: Client, owner: Member) -> None:
    answer = owner_client.post("/memory/", {"text": " I like  tea. "})
    assert (answer.status_code, answer["Location"]) == (302, "/memory/")
    kept = Memory.objects.get()
    assert (kept.person, kept.text, kept.conversation, kept.tainted_by) == (
        owner,
        "I like tea.",
        None,
        "",
    )


def test_a_person_changes_a_fact_and_whose_words_led_to_it_stays_said(
    owner_client: Client, fact: Memory
) -> None:
    """A fact from untrusted content stays marked when a person changes one letter."""
    owner_client.post(f"/memory/{fact.pk}/", {"text": "I like coffee."})
    fact.refresh_from_db()
    assert (fact.text, fact.tainted_by) == ("I like coffee.", "mail")


def test_the_same_words_are_not_kept_twice_and_that_is_said(
    owner_client: Client, owner: Member, fact: Memory
) -> None:
    other = Memory.keep(owner, "I like milk.")[0]
    for url in ("/memory/", f"/memory/{other.pk}/"):
        answer = owner_client.post(url, {"text": "i like TEA."})
        assert answer.status_code == 422
        shown = parse(answer.content.decode())
        assert shown.one(role="alert").text == str(KNOWN)
    assert set(Memory.objects.values_list("text", flat=True)) == {"I like tea.", "I like milk."}
    assert owner_client.post(f"/memory/{fact.pk}/", {"text": "I like TEA."}).status_code == 302


def test_the_log_has_each_act_and_none_of_the_words(owner_client: Client, owner: Member) -> None:
    owner_client.post("/memory/", {"text": "I like tea."})
    fact = Memory.objects.get()
    owner_client.post(f"/memory/{fact.pk}/", {"text": "I like coffee."})
    owner_client.post(f"/memory/{fact.pk}/", {"text": "I like coffee."})  # the same again
    owner_client.post(f"/memory/{fact.pk}/forget")
    entries = LogEntry.objects.filter(kind=LogEntry.Kind.MEMORY)
    lines = [build_line(entry) for entry in entries]
    assert [(line.about, line.said, line.by) for line in lines] == [
        (f"fact {fact.pk}", f"{act} on the page.", "owner")
        for act in ("Added", "Changed", "Deleted")
    ]
    assert not any("like" in entry.data for entry in entries)


def test_hidden_characters_of_a_fact_are_drawn(owner_client: Client, owner: Member) -> None:
    """Threat: `hidden-characters`."""
    fact = Memory.keep(owner, "Pay\u202e 7 to p\u0430ul.")[0]
    shown = page(owner_client).one(id=f"fact-{fact.pk}")
    drawn = shown.one(id=f"fact-{fact.pk}-text").text
    assert "⟨U+202E⟩" in drawn and "⟨U+0430⟩" in drawn
    assert "\u202e" not in shown.one("summary").text


def test_a_person_deletes_a_fact(owner_client: Client, fact: Memory) -> None:
    owner_client.post(f"/memory/{fact.pk}/forget")
    assert not Memory.objects.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Enter something to remember"),
        ("   ", "Enter something to remember"),
        (LONG, "The limit is 500"),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_typed_is_lost(
    owner_client: Client, fact: Memory, text: str, says: str
) -> None:
    for url, field in (("/memory/", "fact-new"), (f"/memory/{fact.pk}/", f"fact-{fact.pk}-new")):
        answer = owner_client.post(url, {"text": text})
        assert answer.status_code == 422
        shown = parse(answer.content.decode())
        assert says in shown.one(role="alert").text
        assert shown.one("textarea", id=field)["aria-invalid"] == "true"
        assert shown.one("textarea", id=field).text.strip() == text.strip()
    fact.refresh_from_db()
    assert fact.text == "I like tea."


def test_a_full_memory_says_what_to_do(
    owner_client: Client, fact: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEMORIES_PER_PERSON", 1)
    answer = owner_client.post("/memory/", {"text": "I like milk."})
    assert answer.status_code == 422
    assert parse(answer.content.decode()).one(role="alert").text
    assert Memory.objects.count() == 1


@pytest.mark.parametrize("url", ["/memory/{id}/", "/memory/{id}/forget"])
def test_a_stranger_reaches_no_fact_by_its_number(
    stranger_client: Client, admin_client: Client, fact: Memory, url: str
) -> None:
    for client in (stranger_client, admin_client):
        assert client.post(url.format(id=fact.pk), {"text": "Mine"}).status_code == 404
        assert "I like tea." not in client.get("/memory/").content.decode()
    fact.refresh_from_db()
    assert fact.text == "I like tea."


@pytest.mark.parametrize("url", ["/memory/", "/memory/{id}/", "/memory/{id}/forget"])
def test_a_signed_out_person_is_shown_the_door(client: Client, fact: Memory, url: str) -> None:
    answer = client.post(url.format(id=fact.pk), {"text": "Mine"})
    assert answer["Location"].startswith("/sign-in/")
    assert Memory.objects.get().text == "I like tea."


def test_looking_changes_nothing(owner_client: Client, fact: Memory) -> None:
    assert owner_client.get(f"/memory/{fact.pk}/forget").status_code == 405
    assert Memory.objects.exists()


def test_words_of_a_fact_are_words(owner_client: Client, owner: Member) -> None:
    Memory.keep(owner, "<script>alert(1)</script>")
    assert "<script>alert(1)" not in owner_client.get("/memory/").content.decode()
