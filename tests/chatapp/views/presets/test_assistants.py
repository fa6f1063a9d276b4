"""Assistants: who sees, changes and starts them, and what a chat takes over."""

import uuid
from typing import Any, cast

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models.signals import m2m_changed, pre_save
from django.http import HttpResponse, QueryDict
from django.test import Client, RequestFactory

from chatapp.conversations import chat_list, forks
from chatapp.models import Assistant, ChatModel, Conversation, Member, ModelProvider, Turn
from chatapp.models.presets import assistant as limits
from chatapp.models.presets.sharing import Audience
from chatapp.people.refused import Refused
from chatapp.tool_menu.turn_selection import load_switches
from chatapp.views.access import MemberRequest
from chatapp.views.presets import assistants
from chatapp.views.presets.forms import AssistantForm
from mcpconfig.models import Service
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}
URL = "https://127.0.0.1:1/mcp"
HIDDEN = "\u202eevil"


@pytest.fixture
def group(owner: Member) -> Group:
    made = Group.objects.create(name="Platform team")
    owner.groups.add(made)
    return made


@pytest.fixture
def review(owner: Member) -> Assistant:
    return Assistant.objects.create(
        owner=owner,
        name="Incident review",
        description="Builds a timeline",
        instructions="You work for {{team}}. Times are {{time zone}}.",
        mode="plan",
        effort="high",
        starters=["Draft the review", "Review {{incident}}"],
    )


def share(assistant: Assistant, audience: Audience, group: Group | None = None) -> None:
    Assistant.objects.filter(pk=assistant.pk).update(audience=audience, group=group)
    assistant.refresh_from_db()


def a_model(**more: Any) -> ChatModel:
    provider = ModelProvider.objects.create(
        slug="team", kind="openai-chat", label="Team", base_url=URL, key_place="none"
    )
    return ChatModel.objects.create(provider=provider, name="large", **more)


def read(client: Client, address: str) -> Element:
    answer = client.get(address)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def list_names(client: Client, query: str = "") -> dict[str, list[str]]:
    """Return the names of the gallery by section."""
    sections = read(client, f"/assistants/{query}").one("div", class_="thread gallery")
    return {
        section.one("h2").text.rpartition(" ")[0]: [each.text for each in section.all("h3")]
        for section in sections.all("section")
    }


def save(client: Client, address: str, **values: Any) -> HttpResponse:
    fields = {"name": "Handbook", "tools": "all", "who": "owner", **values}
    answer: Any = client.post(address, fields)
    return answer  # type: ignore[no-any-return]


def start(client: Client, assistant: Assistant, htmx: bool = False, **values: Any) -> HttpResponse:
    """Send the first message of the page of this assistant, as it is now."""
    fields = {
        "text": "Hello",
        "model": rows.MODEL,
        "assistant": str(assistant.pk),
        "assistant_version": assistant.version,
        "variable-team": "Payments",
        "variable-time zone": "UTC",
        **values,
    }
    answer: Any = client.post("/c/new/messages", fields, headers=HTMX if htmx else {})
    return answer  # type: ignore[no-any-return]


def team(value: str) -> dict[str, Any]:
    return {"variable-team": value}


# --- who sees it ---------------------------------------------------------------------------------
def test_only_its_owner_finds_a_private_assistant(
    owner_client: Client, stranger_client: Client, admin_client: Client, review: Assistant
) -> None:
    assert list_names(owner_client) == {"Mine": ["Incident review"]}
    for client in (stranger_client, admin_client):
        assert list_names(client) == {}
        assert client.get(f"/?assistant={review.pk}").status_code == 404
        for method, path in (
            (client.get, f"/assistants/{review.pk}/edit/"),
            (client.post, f"/assistants/{review.pk}/edit/"),
            (client.post, f"/assistants/{review.pk}/duplicate"),
            (client.post, f"/assistants/{review.pk}/delete"),
        ):
            assert method(path).status_code == 404
    assert Assistant.objects.filter(pk=review.pk).exists()


def test_a_group_uses_what_is_shared_with_it_until_a_person_leaves(
    owner_client: Client,
    stranger: Member,
    stranger_client: Client,
    admin_client: Client,
    review: Assistant,
    group: Group,
) -> None:
    share(review, Audience.GROUP, group)
    assert list_names(stranger_client) == {}
    stranger.groups.add(group)
    assert list_names(stranger_client) == {"Platform team": ["Incident review"]}
    assert list_names(owner_client) == {"Platform team": ["Incident review"]}
    assert stranger_client.get(f"/?assistant={review.pk}").status_code == 200
    assert stranger_client.get(f"/assistants/{review.pk}/edit/").status_code == 404
    assert stranger_client.post(f"/assistants/{review.pk}/delete").status_code == 404
    assert admin_client.get(f"/?assistant={review.pk}").status_code == 404
    stranger.groups.remove(group)
    assert list_names(stranger_client) == {}
    assert stranger_client.get(f"/?assistant={review.pk}").status_code == 404


def test_everyone_uses_what_is_shared_with_everyone_and_nobody_else_edits_it(
    stranger_client: Client, admin_client: Client, review: Assistant
) -> None:
    share(review, Audience.EVERYONE)
    for client in (stranger_client, admin_client):
        assert list_names(client) == {"Everyone": ["Incident review"]}
        assert client.get(f"/assistants/{review.pk}/edit/").status_code == 404


def test_without_its_group_an_assistant_is_its_owners_alone(
    owner_client: Client, stranger: Member, stranger_client: Client, review: Assistant, group: Group
) -> None:
    stranger.groups.add(group)
    share(review, Audience.GROUP, group)
    group.delete()
    assert list_names(owner_client) == {"Mine": ["Incident review"]}
    assert list_names(stranger_client) == {}


def test_search_and_filters_narrow_the_gallery(
    owner_client: Client, owner: Member, review: Assistant, group: Group
) -> None:
    share(review, Audience.GROUP, group)
    Assistant.objects.create(owner=owner, name="Übersetzer", description="German")
    assert list_names(owner_client, "?q=übersetzer") == {"Mine": ["Übersetzer"]}
    assert list_names(owner_client, "?q=timeline+incident") == {
        "Platform team": ["Incident review"]
    }
    assert list_names(owner_client, "?q=owner") == list_names(owner_client)
    assert list_names(owner_client, "?q=nothing") == {}
    shown = list_names(owner_client, "?show=mine")
    assert shown == {"Mine": ["Incident review", "Übersetzer"]}
    filtered = list_names(owner_client, f"?show=group-{group.pk}")
    assert filtered == {"Platform team": ["Incident review"]}
    assert list_names(owner_client, "?show=everyone") == {}
    assert list_names(owner_client, "?show=group-999999&q=%00") == list_names(owner_client)


# --- the form ------------------------------------------------------------------------------------
def test_a_person_creates_changes_and_deletes_an_assistant(
    owner_client: Client, owner: Member, group: Group
) -> None:
    service = rows.service("garden", title="Garden")
    answer = save(
        owner_client,
        "/assistants/new/",
        name="  Incident   review ",
        description="Builds a timeline",
        instructions="Work for {{team}}.\r\nBe brief.",
        model=rows.MODEL,
        effort="high",
        plans="on",
        tools="chosen",
        services=[service.pk],
        starters=["Draft {{incident}}", "", " Again "],
        who=f"group-{group.pk}",
    )
    made = Assistant.objects.get()
    assert answer["Location"] == f"/assistants/#assistant-{made.pk}"
    assert (made.owner, made.name, made.description) == (
        owner,
        "Incident review",
        "Builds a timeline",
    )
    assert made.instructions == "Work for {{team}}.\nBe brief."
    assert (made.model, made.effort, made.mode) == (rows.MODEL, "high", "plan")
    assert (made.uses_tools, made.limits_services) == (True, True)
    assert list(made.services.all()) == [service]
    assert made.starters == ["Draft {{incident}}", "Again"]
    assert (made.audience, made.group) == (Audience.GROUP, group)
    address = f"/assistants/{made.pk}/edit/"
    page = read(owner_client, address).one("form", id="preset-form")
    assert page.one("input", name="name")["value"] == "Incident review"
    assert page.one("p", id="instructions-help").text.startswith(
        "Asked for when a chat starts: team"
    )
    assert "checked" in page.one("input", name="services")
    assert [each.text for each in page.all("textarea", name="starters")][:3] == [
        "Draft {{incident}}",
        "Again",
        "",
    ]
    save(owner_client, address, name="Handbook", tools="off", effort="default")
    made.refresh_from_db()
    assert (made.name, made.uses_tools, made.limits_services) == ("Handbook", False, False)
    assert (made.audience, made.group, made.effort) == (Audience.OWNER, None, "")
    assert owner_client.post(f"/assistants/{made.pk}/delete")["Location"] == "/assistants/"
    assert not Assistant.objects.exists()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": ""}, "This field is required."),
        ({"name": "\u200b"}, "This field is required."),
        ({"name": "x" * 81}, "Ensure this value has at most 80 characters (it has 81)."),
        ({"description": "x" * 201}, "at most 200 characters"),
        ({"instructions": "x" * 8_001}, "This text has 8001 characters. The limit is 8000."),
        ({"instructions": "a\x00b"}, "Null characters are not allowed."),
        (
            {"instructions": "".join(f"{{{{v{n}}}}}" for n in range(21))},
            "This text has 21 variables. The limit is 20.",
        ),
        ({"starters": ["x" * 501]}, "Starter 1 has 501 characters. The limit is 500."),
        (
            {"starters": ["", "".join(f"{{{{v{n}}}}}" for n in range(21))]},
            "Starter 2 has 21 variables. The limit is 20.",
        ),
        ({"starters": ["x"] * 7}, "An assistant has at most 6 starters."),
        ({"model": "openai:secret"}, "You can’t use this model. Choose another one."),
        ({"who": "everyone"}, "You can’t share with this group any more. Choose again."),
        ({"who": "group-999"}, "You can’t share with this group any more. Choose again."),
        ({"tools": ""}, "This field is required."),
    ],
)
def test_a_refused_form_says_why_and_keeps_what_was_typed(
    owner_client: Client, values: dict[str, Any], sentence: str
) -> None:
    typed = {"description": "My words", "instructions": "My {{other}} words", **values}
    answer = save(owner_client, "/assistants/new/", **typed)
    page = parse(answer.content.decode()).one("form", id="preset-form")
    assert answer.status_code == 422
    assert sentence in page.text
    assert page.one("input", name="description")["value"] == typed["description"]
    box = page.one("textarea", name="instructions")
    assert box.text.replace("\ufffd", "\x00") == typed["instructions"]
    assert not Assistant.objects.exists()


def test_only_admins_share_with_everyone_and_only_members_with_a_group(
    admin_client: Client, stranger_client: Client, group: Group
) -> None:
    assert save(admin_client, "/assistants/new/", who="everyone").status_code == 302
    assert Assistant.objects.get().audience == Audience.EVERYONE
    for client in (stranger_client, admin_client):
        refused = save(client, "/assistants/new/", who=f"group-{group.pk}")
        assert refused.status_code == 422
    assert Assistant.objects.count() == 1


@pytest.mark.parametrize("audience", [Audience.GROUP, Audience.EVERYONE])
def test_a_change_unshares_nothing_that_its_author_could_not_share_again(
    owner: Member, owner_client: Client, review: Assistant, group: Group, audience: Audience
) -> None:
    share(review, audience, group if audience == Audience.GROUP else None)
    owner.groups.remove(group)
    address = f"/assistants/{review.pk}/edit/"
    form = read(owner_client, address).one("form", id="preset-form")
    (chosen,) = [
        each for each in form.one("select", name="who").all("option") if "selected" in each
    ]
    assert (chosen["value"], chosen.text) == ("", "Choose who can use it")
    name = "Platform team" if audience == Audience.GROUP else "Everyone"
    assert f"Now shared with: {name}." in form.text
    refused = save(owner_client, address, who="")
    page = parse(refused.content.decode()).one("form", id="preset-form")
    assert refused.status_code == 422
    assert page.one(id="id_who-problem").text == "This field is required."
    assert f"Now shared with: {name}." in page.text
    review.refresh_from_db()
    assert (review.name, review.audience) == ("Incident review", audience)
    assert save(owner_client, address, who="owner").status_code == 302
    review.refresh_from_db()
    assert review.audience == Audience.OWNER


def test_the_form_of_one_without_its_group_says_that_only_its_owner_can_use_it(
    owner_client: Client, review: Assistant, group: Group
) -> None:
    share(review, Audience.GROUP, group)
    group.delete()
    form = read(owner_client, f"/assistants/{review.pk}/edit/").one("form", id="preset-form")
    assert "selected" in form.one("option", value="owner")
    assert "Now shared with" not in form.text


@pytest.mark.parametrize("what", ["group", "service"])
def test_what_is_deleted_while_a_form_is_saved_is_said_and_the_form_stays(
    owner_client: Client, group: Group, what: str
) -> None:
    service = rows.service("garden", title="Garden")

    def delete(action: str = "pre_add", **_more: Any) -> None:
        if action == "pre_add":
            (group if what == "group" else service).delete()

    signal, sender = (
        (pre_save, Assistant) if what == "group" else (m2m_changed, Assistant.services.through)
    )
    signal.connect(delete, sender=sender)
    try:
        refused = save(
            owner_client,
            "/assistants/new/",
            tools="chosen",
            services=[service.pk],
            who=f"group-{group.pk}",
            instructions="My words",
        )
    finally:
        signal.disconnect(delete, sender=sender)
    page = parse(refused.content.decode())
    assert refused.status_code == 422
    assert "Something that you chose was deleted meanwhile." in page.text
    assert page.one("textarea", name="instructions").text == "My words"
    assert not Assistant.objects.exists()


def test_the_problem_of_a_starter_names_and_marks_its_box(owner_client: Client) -> None:
    refused = save(owner_client, "/assistants/new/", starters=["One", "", "x" * 501])
    form = parse(refused.content.decode()).one("form", id="preset-form")
    problem = form.one(id="id_starters-problem")
    assert problem.text == "Starter 3 has 501 characters. The limit is 500."
    marked = [each for each in form.all("textarea", name="starters") if "aria-invalid" in each]
    assert [(each["aria-label"], each["aria-describedby"]) for each in marked] == [
        ("Starter 3", "id_starters-problem")
    ]


def test_a_person_lists_only_services_that_they_may_use(
    owner_client: Client, stranger: Member, review: Assistant
) -> None:
    private = Service.objects.create(
        name="vault", title="Vault", url=URL, owner=stranger, visibility="private"
    )
    address = f"/assistants/{review.pk}/edit/"
    assert "Vault" not in read(owner_client, address).one("form", id="preset-form").text
    refused = save(owner_client, address, tools="chosen", services=[private.pk])
    assert refused.status_code == 422
    # One that it had before can stay, or be taken out.
    review.services.add(private)
    assert "Vault You can’t use it" in read(owner_client, address).text
    assert save(owner_client, address, tools="chosen", services=[private.pk]).status_code == 302
    assert save(owner_client, address, tools="chosen").status_code == 302
    assert not review.services.exists()


def test_a_person_has_at_most_so_many(
    owner_client: Client, review: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.conversations.assistants.ASSISTANTS_PER_PERSON", 1)
    refused = save(owner_client, "/assistants/new/", name="Typed")
    page = parse(refused.content.decode())
    assert refused.status_code == 422
    assert "You have 1 assistants, which is the limit. Delete one first." in page.text
    assert page.one("input", name="name")["value"] == "Typed"
    answer: Any = owner_client.post(f"/assistants/{review.pk}/duplicate")
    assert answer.status_code == 409
    assert "which is the limit" in answer.content.decode()
    assert limits.ASSISTANTS_PER_PERSON == 100


def test_a_copy_is_the_persons_own_with_only_the_services_that_they_may_use(
    owner: Member, stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    garden = rows.service("garden", title="Garden")
    private = Service.objects.create(
        name="vault", title="Vault", url=URL, owner=owner, visibility="private"
    )
    review.services.set([garden, private])
    Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    share(review, Audience.EVERYONE)
    stranger_client.post(f"/assistants/{review.pk}/duplicate")
    copy = Assistant.objects.get(owner=stranger)
    assert (copy.name, copy.audience) == ("Copy of Incident review", Audience.OWNER)
    assert list(copy.services.all()) == [garden]
    assert (copy.instructions, copy.starters) == (review.instructions, review.starters)


def test_a_copy_has_no_characters_that_nobody_sees(
    stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    Assistant.objects.filter(pk=review.pk).update(
        instructions=f"Be brief.\n{HIDDEN}", starters=[f"Draft {HIDDEN}", "\u200b"]
    )
    share(review, Audience.EVERYONE)
    stranger_client.post(f"/assistants/{review.pk}/duplicate")
    copy = Assistant.objects.get(owner=stranger)
    assert (copy.instructions, copy.starters) == ("Be brief.\nevil", ["Draft evil"])


def test_a_copy_keeps_services_that_are_switched_off(
    stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    shed = rows.service("shed", title="Shed")
    stranger.tool_switches.create(service=shed, is_on=False)
    review.services.add(shed)
    Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    share(review, Audience.EVERYONE)
    stranger_client.post(f"/assistants/{review.pk}/duplicate")
    assert list(Assistant.objects.get(owner=stranger).services.all()) == [shed]


def test_a_copy_has_no_model_that_the_person_may_not_use(
    stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    a_model(audience=ChatModel.Audience.GROUPS)
    Assistant.objects.filter(pk=review.pk).update(model="team:large")
    share(review, Audience.EVERYONE)
    answer: Any = stranger_client.post(f"/assistants/{review.pk}/duplicate")
    assert Assistant.objects.get(owner=stranger).model == ""
    assert "team:large" not in stranger_client.get(answer["Location"]).content.decode()


def test_a_model_that_its_owner_may_not_use_any_more_stays_until_they_choose_another(
    owner_client: Client, review: Assistant
) -> None:
    model = a_model()
    Assistant.objects.filter(pk=review.pk).update(model="team:large")
    ChatModel.objects.filter(pk=model.pk).update(audience=ChatModel.Audience.GROUPS)
    address = f"/assistants/{review.pk}/edit/"
    group = read(owner_client, address).one("optgroup", label="Saved, but not in your list")
    assert "selected" in group.one("option", value="team:large")
    assert save(owner_client, address, model="team:large").status_code == 302
    assert save(owner_client, address, model="").status_code == 302
    assert save(owner_client, address, model="team:large").status_code == 422


def test_a_change_of_what_was_deleted_meanwhile_does_not_bring_it_back(
    owner: Member, review: Assistant
) -> None:
    form = AssistantForm(QueryDict("name=Back&tools=all&who=owner"), person=owner, row=review)
    Assistant.objects.all().delete()
    assert form.is_valid()
    request = RequestFactory().post("/")
    request.user = owner
    with pytest.raises(Refused, match="deleted meanwhile"):
        assistants._save(cast(MemberRequest, request), form)
    assert not Assistant.objects.exists()


def test_hostile_text_is_escaped(owner_client: Client, review: Assistant) -> None:
    hostile = "<script>alert(1)</script>"
    Assistant.objects.filter(pk=review.pk).update(
        name=hostile, description=hostile, instructions=f"{hostile} {HIDDEN}", starters=[hostile]
    )
    for address in ("/assistants/", f"/assistants/{review.pk}/edit/", f"/?assistant={review.pk}"):
        assert hostile not in owner_client.get(address).content.decode()
    shown = read(owner_client, f"/?assistant={review.pk}").one("pre", class_="prompt-text")
    assert shown.all("span", class_="hidden-char"), "hidden characters are drawn"


# --- the start of a chat -------------------------------------------------------------------------
def test_the_page_of_a_new_chat_has_what_the_assistant_brings(
    owner_client: Client, review: Assistant
) -> None:
    a_model()  # The demo assistant does not reason.
    Assistant.objects.filter(pk=review.pk).update(model="team:large")
    page = read(owner_client, f"/?assistant={review.pk}")
    begun = page.one("div", id="assistant-start")
    assert begun.one("h1").text == "Incident review"
    fields = begun.all("textarea")
    assert [each["name"] for each in fields] == ["variable-team", "variable-time zone"]
    assert {each["form"] for each in fields} == {"composer"}
    assert begun.one("summary").text == "Instructions of Incident review by owner"
    assert begun.one("pre").text == review.instructions
    assert "never gives you access to a service or a model" in begun.text
    assert "checked" in page.one("input", name="mode")
    chosen = [each["value"] for each in page.all("option") if "selected" in each]
    assert chosen == ["team:large", "high"]
    plain, asked = page.one("div", class_="openers").all("button")
    assert (plain.text, plain["data-fill"]) == ("Draft the review", "Draft the review")
    assert (asked.text, "data-fill" in asked) == ("Review {{incident}}", False)
    for bad in ("nonsense", uuid.uuid4()):
        assert owner_client.get(f"/?assistant={bad}").status_code == 404


def test_a_chat_takes_over_everything_and_later_changes_do_not_reach_it(
    owner_client: Client, owner: Member, review: Assistant
) -> None:
    kept, other = rows.service("garden", title="Garden"), rows.service("shed", title="Shed")
    review.services.add(kept)
    Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    review.refresh_from_db()
    start(owner_client, review, mode="plan", effort="high", tools="")
    chat = Conversation.objects.get()
    assert chat.assistant == review
    assert chat.instructions == "You work for Payments. Times are UTC."
    assert (chat.mode, chat.effort, chat.uses_tools) == ("plan", "high", True)
    switches = chat.tool_switches.values_list("person", "service", "tool", "is_on")
    assert list(switches) == [(owner.pk, other.pk, "", False)]
    # It counts before a switch of all chats for one of the tools.
    owner.tool_switches.create(service=other, tool="dig", is_on=True)
    counted = load_switches(owner, chat)
    assert [counted.is_on(name, "dig") for name in ("garden", "shed")] == [True, False]
    head = read(owner_client, f"/c/{chat.pk}/").one("div", id="chat-head")
    assert head.one("a", class_="state").text == "Incident review"
    assert "Incident review by owner" in read(owner_client, f"/c/{chat.pk}/instructions").text
    Assistant.objects.filter(pk=review.pk).update(instructions="Obey me.", limits_services=False)
    chat.refresh_from_db()
    assert chat.instructions == "You work for Payments. Times are UTC."
    assert chat.tool_switches.count() == 1
    review.delete()
    chat.refresh_from_db()
    assert chat.assistant_id is None
    assert chat.instructions.startswith("You work")
    assert owner_client.get(f"/c/{chat.pk}/").status_code == 200


def test_a_fork_remembers_the_assistant(owner: Member, review: Assistant) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    Conversation.objects.update(assistant=review)
    found = forks.find_answer(owner, turn.conversation_id, turn.answer_id)
    assert forks.fork_chat(found).assistant == review


def test_the_name_is_not_shown_to_who_may_not_use_it_any_more(
    owner: Member, stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    share(review, Audience.EVERYONE)
    start(stranger_client, review)
    chat = Conversation.objects.get(owner=stranger)
    assert "Incident review" in stranger_client.get(f"/c/{chat.pk}/").content.decode()
    share(review, Audience.OWNER)
    for address in (f"/c/{chat.pk}/", f"/c/{chat.pk}/instructions"):
        assert "Incident review" not in stranger_client.get(address).content.decode()
    chat_list.pin(chat, is_on=True)
    changed: Any = stranger_client.post(f"/c/{chat.pk}/pin", {"pin": "no"}, headers=HTMX)
    assert "Incident review" not in changed.content.decode()


def test_services_that_start_switched_off_are_named_apart(
    owner_client: Client, review: Assistant
) -> None:
    shed = rows.service("shed", title="Shed")
    review.services.set([rows.service("garden", title="Garden"), shed])
    Service.objects.filter(pk=shed.pk).update(starts_on=False)
    Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    begun = read(owner_client, f"/?assistant={review.pk}").one("div", id="assistant-start")
    assert "It uses only these services: Garden." in begun.text
    assert "Switched off for you: Shed." in begun.text


def test_a_service_that_the_person_gets_later_is_off_and_not_named_before(
    owner: Member, stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    vault = Service.objects.create(
        name="vault", title="Vault", url=URL, owner=owner, visibility="private"
    )
    Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    share(review, Audience.EVERYONE)
    review.refresh_from_db()
    start(stranger_client, review)
    chat = Conversation.objects.get()
    assert not load_switches(stranger, chat).is_on("vault", "open")
    menu: dict[str, Any] = {"chat": str(chat.pk)}
    for answer in (
        stranger_client.get(f"/c/{chat.pk}/"),
        stranger_client.get(f"/c/{chat.pk}/export"),
        stranger_client.post("/tools/", menu),
    ):
        assert answer.status_code == 200
        assert "vault" not in answer.content.decode().lower()
    Service.objects.filter(pk=vault.pk).update(visibility="everyone")
    assert not load_switches(stranger, chat).is_on("vault", "open")


def test_a_service_that_is_deleted_while_a_chat_starts_is_said(
    owner_client: Client, review: Assistant
) -> None:
    shed = rows.service("shed", title="Shed")
    Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    review.refresh_from_db()

    def delete_first(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("INSERT") and "chatapp_toolswitch" in sql:
            Service.objects.filter(pk=shed.pk).delete()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(delete_first):
        refused = start(owner_client, review, htmx=True, client_id=str(uuid.uuid4()))
    assert refused.status_code == 409
    assert "deleted meanwhile. Send your message again." in refused.content.decode()
    assert not Conversation.objects.exists()
    assert start(owner_client, review).status_code == 302


def test_an_assistant_gives_nobody_a_service_or_a_model(
    owner: Member, stranger: Member, stranger_client: Client, review: Assistant
) -> None:
    """What the person may not use is named and left out; what they switched off stays off."""
    a_model(audience=ChatModel.Audience.GROUPS)
    private = Service.objects.create(
        name="vault", title="Vault", url=URL, owner=owner, visibility="private"
    )
    off = rows.service("shed", title="Shed")
    stranger.tool_switches.create(service=off, is_on=False)
    review.services.set([private, off])
    Assistant.objects.filter(pk=review.pk).update(limits_services=True, model="team:large")
    share(review, Audience.EVERYONE)
    page = read(stranger_client, f"/?assistant={review.pk}")
    begun = page.one("div", id="assistant-start")
    assert "Left out, because you can’t use them: Vault" in begun.text
    assert "It uses no services." in begun.text
    assert "Switched off for you: Shed." in begun.text
    assert "You can’t use the model of this assistant." in begun.text
    assert "team:large" not in page.text
    start(stranger_client, review)
    chat = Conversation.objects.get()
    assert not chat.tool_switches.filter(is_on=True).exists()
    assert not Service.objects.for_member(stranger).filter(pk=private.pk).exists()
    refused = start(stranger_client, review, model="team:large", text="Again")
    assert refused.status_code == 422
    assert Conversation.objects.count() == 1


def test_missing_and_long_values_are_refused_beside_what_was_typed(
    owner_client: Client, review: Assistant
) -> None:
    refused = start(owner_client, review, text="My words", **team(" "))
    page = parse(refused.content.decode())
    assert refused.status_code == 422
    assert "Incident review needs more information. Fill in: team." in page.text
    assert page.one("textarea", id="message").text == "My words"
    field, other = page.one("div", id="assistant-start").all("textarea")
    assert (field["aria-invalid"], other.text) == ("true", "UTC")
    described = page.one(id=field["aria-describedby"])
    assert "Fill in: team." in described.text
    long = start(owner_client, review, htmx=True, **team("x" * 501))
    update = parse(long.content.decode())
    assert long.status_code == 422
    assert "“team” has 501 characters. The limit is 500." in update.text
    begun = update.one("div", id="assistant-start")
    assert begun["hx-swap-oob"] == "true"
    assert begun.all("textarea")[0].text == "x" * 501
    bad = start(owner_client, review, htmx=True, **team("a\x00b"))
    assert "cannot be stored" in bad.content.decode()
    assert not Conversation.objects.exists()


def test_filled_instructions_fit_a_chat(owner_client: Client, review: Assistant) -> None:
    text = "x" * 7_600 + "{{team}}"
    Assistant.objects.filter(pk=review.pk).update(instructions=text)
    review.refresh_from_db()
    refused = start(owner_client, review, htmx=True, **team("y" * 401))
    assert "have 8,001 characters. The limit is 8,000." in refused.content.decode()
    start(owner_client, review, **team("y" * 400))
    assert len(Conversation.objects.get().instructions) == 8_000


def test_values_are_filled_in_once(owner_client: Client, review: Assistant) -> None:
    start(owner_client, review, **team(" {{time zone}}\r\n<b>\r\n"))
    chat = Conversation.objects.get()
    assert chat.instructions == "You work for {{time zone}}\n<b>. Times are UTC."


@pytest.mark.parametrize("htmx", [False, True])
@pytest.mark.parametrize("how", ["deleted", "taken out of reach"])
def test_an_assistant_that_is_gone_since_is_said_and_the_text_stays(
    stranger_client: Client, review: Assistant, how: str, htmx: bool
) -> None:
    share(review, Audience.EVERYONE)
    fields = {"assistant": str(review.pk), "assistant_version": review.version}
    if how == "deleted":
        Assistant.objects.all().delete()
    else:
        share(review, Audience.OWNER)
    message = {"text": "My words", "model": rows.MODEL, **fields}
    headers = HTMX if htmx else {}
    refused: Any = stranger_client.post("/c/new/messages", message, headers=headers)
    page = parse(refused.content.decode())
    assert refused.status_code == 409
    assert "The assistant was deleted, or you can no longer use it." in page.text
    assert page.all("input", name="assistant") == []
    assert "Incident review" not in page.text
    if not htmx:
        assert page.one("textarea", id="message").text == "My words"
    assert not Conversation.objects.exists()
    # The page has no assistant any more, so the same message starts a plain chat.
    stranger_client.post("/c/new/messages", {"text": "My words", "model": rows.MODEL})
    assert Conversation.objects.get().instructions == ""


@pytest.mark.parametrize("change", ["instructions", "services"])
def test_nobody_starts_a_chat_with_instructions_or_services_that_they_were_not_shown(
    stranger_client: Client, review: Assistant, change: str
) -> None:
    """threats: `instructions-of-an-assistant`."""
    share(review, Audience.EVERYONE)
    shown = review.version
    if change == "instructions":
        Assistant.objects.filter(pk=review.pk).update(instructions="Send it all. {{team}}")
    else:
        Assistant.objects.filter(pk=review.pk).update(limits_services=True)
    refused = start(stranger_client, review, htmx=True, assistant_version=shown)
    page = parse(refused.content.decode())
    assert refused.status_code == 409
    assert "Incident review changed after you opened this page." in page.text
    begun = page.one("div", id="assistant-start")
    assert begun.all("textarea")[0].text == "Payments"
    assert not Conversation.objects.exists()
    now = begun.one("input", name="assistant_version")["value"]
    start(stranger_client, review, assistant_version=now)
    assert Conversation.objects.count() == 1


def test_a_repeated_post_starts_one_chat_also_after_the_assistant_is_gone(
    owner_client: Client, review: Assistant
) -> None:
    sent: dict[str, Any] = {"client_id": str(uuid.uuid4()), "assistant_version": review.version}
    first = start(owner_client, review, **sent)
    review_id = review.pk
    Assistant.objects.all().delete()
    review.pk = review_id
    again = start(owner_client, review, **sent)
    assert first["Location"] == again["Location"]
    assert Conversation.objects.count() == 1


def test_a_plain_chat_and_a_chat_that_is_open_take_no_assistant(
    owner: Member, owner_client: Client, review: Assistant
) -> None:
    chat = rows.turn(owner, Turn.State.DONE).conversation
    fields = {"text": "Hello", "model": rows.MODEL, "assistant": str(review.pk)}
    assert owner_client.post(f"/c/{chat.pk}/messages", fields).status_code == 302
    chat.refresh_from_db()
    assert (chat.assistant, chat.instructions) == (None, "")
    bad: Any = owner_client.post("/c/new/messages", fields | {"assistant": "nonsense"})
    assert bad.status_code == 409


def test_what_was_begun_to_write_is_in_the_box_and_steps_aside_keep_the_assistant(
    owner_client: Client, review: Assistant
) -> None:
    owner_client.post("/draft/", {"text": "Begun", "client_id": str(uuid.uuid4())})
    page = read(owner_client, f"/?assistant={review.pk}")
    assert page.one("textarea", id="message").text == "Begun"
    fields = {
        "text": "Begun",
        "assistant": str(review.pk),
        "assistant_version": review.version,
        "variable-team": "Payments",
    }
    aside = parse(owner_client.post("/attach/", fields).content.decode())
    carried = {
        each["name"]: each["value"]
        for each in aside.one("form", class_="leave-picker").all("input")
    }
    assert fields.items() <= carried.items()
    back = parse(owner_client.post("/attach/back", fields).content.decode())
    assert back.one("div", id="assistant-start").all("textarea")[0].text == "Payments"


def test_the_pages_of_plain_chats_ask_nothing_about_assistants(
    owner: Member, owner_client: Client
) -> None:
    page = read(signed_in(owner), "/")
    assert page.all("div", id="assistant-start") == []
    chat = rows.turn(owner, Turn.State.DONE).conversation
    assert (
        read(owner_client, f"/c/{chat.pk}/").one("div", id="chat-head").all("a", class_="state")
        == []
    )
