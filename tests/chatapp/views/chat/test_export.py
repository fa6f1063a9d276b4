"""A chat as a file and on paper: what its owner sees in it, and nothing else."""

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from chatapp.conversations import drafts, forks
from chatapp.models import (
    Approval,
    Attachment,
    Conversation,
    Member,
    Message,
    MessageDraft,
    Part,
    QueuedMessage,
    Review,
    ToolCall,
    Turn,
)
from chatapp.views.chat import export
from tests.dom_tree import Element, parse
from tests.turns import rows

from .test_older_messages import counted

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = Path(__file__).parents[4] / "docs/export.md"
SECRET = "hunter2hunter2"
KINDS = ("markdown", "json")
DETAILS = ("none", "outcomes", "full")


def fetch(
    client: Client, chat: Conversation, kind: str, tools: str = "full", status: int = 200
) -> Any:
    answer = client.get(f"/c/{chat.pk}/export", {"format": kind, "tools": tools})
    assert answer.status_code == status
    return answer


def read_markdown(client: Client, chat: Conversation, tools: str = "full") -> str:
    return str(fetch(client, chat, "markdown", tools).content.decode())


def read_json(client: Client, chat: Conversation, tools: str = "full") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fetch(client, chat, "json", tools).content)
    return found


def open_page(client: Client, address: str, status: int = 200) -> Element:
    answer = client.get(address)
    assert answer.status_code == status
    return parse(answer.content.decode())


@pytest.fixture
def turn(owner: Member) -> Turn:
    """A question, and an answer with each kind of part."""
    made = rows.turn(owner, Turn.State.DONE, "Which plants?")
    rows.said(made, "Look in the notebook first.", "reasoning", seconds=3)
    rows.said(made, "Some **roses**.")
    arguments = {"title": "Roses", "password": SECRET}
    result = {"content": [{"type": "text", "text": "3 < 4 & <b>bold</b>"}]}
    add_decided(owner, rows.call(made, arguments, result=result, sent_at=timezone.now()), "granted")
    sources = [{"url": "https://example.org/roses", "title": "All [roses]"}]
    rows.said(made, "", "sources", sources=sources)
    rows.said(made, "Only 2 of 3 were read.", "notice", notice_kind="info", hint="Ask again.")
    rows.said(made, "", "text", opaque={"provider": "x", "data": "OPAQUE"})
    return made


def add_decided(person: Member, call: ToolCall, state: str, reason: str = "") -> None:
    Approval.objects.create(
        tool_call=call,
        binding=rows.BINDING,
        state=state,
        decided_by=person,
        decided_at=timezone.now(),
        expires_at=timezone.now(),
        reason=reason,
    )


def add_attachment(person: Member, message: Message) -> Attachment:
    part = Part.objects.create(message=message, position=9, kind="file")
    return Attachment.objects.create(
        owner=person,
        part=part,
        name="plan (1).pdf",
        mime_type="application/pdf",
        size=12,
        contents=[],
    )


def add_version(turn: Turn, text: str) -> Message:
    """Another version of the question, which is not shown."""
    made = Message.objects.create(
        conversation=turn.conversation, role="user", created_seq=3, is_shown=False
    )
    Part.objects.create(message=made, position=0, kind="text", text=text)
    return made


# --- the page -------------------------------------------------------------------------------
def test_the_menu_leads_to_the_choices_and_the_form_to_the_file(
    owner_client: Client, turn: Turn
) -> None:
    chat = open_page(owner_client, f"/c/{turn.conversation_id}/")
    address = f"/c/{turn.conversation_id}/export"
    link = chat.one("div", id="chat-menu").one("a", href=address)
    assert link.text == "Export"
    page = open_page(owner_client, link["href"])
    form = page.one("form", method="get", action=link["href"])
    radios = form.all("input", type="radio")
    chosen = {each["name"]: each["value"] for each in radios if "checked" in each}
    assert chosen == {"format": "markdown", "tools": "outcomes"}
    values = [each["value"] for each in radios]
    assert values == [*KINDS, *DETAILS]
    assert page.all("a", href=f"/c/{turn.conversation_id}/print")


@pytest.mark.parametrize("wrong", [{"format": "docx", "tools": "none"}, {"format": "json"}])
def test_a_wrong_choice_keeps_the_right_one_and_names_the_field(
    owner_client: Client, turn: Turn, wrong: dict[str, str]
) -> None:
    answer = owner_client.get(f"/c/{turn.conversation_id}/export", wrong)
    page = parse(answer.content.decode())
    assert answer.status_code == 422 and page.one(role="alert").text
    assert len([each for each in page.all("input", type="radio") if "checked" in each]) == 1
    assert "Content-Disposition" not in answer


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_saved_under_its_title_and_kept_nowhere_else(
    owner_client: Client, turn: Turn, kind: str
) -> None:
    title = '../Größe: "a/b"\\ \u202e<x>\r\nSet-Cookie: y'
    Conversation.objects.filter(pk=turn.conversation_id).update(title=title)
    answer = fetch(owner_client, turn.conversation, kind)
    disposition = answer["Content-Disposition"]
    suffix = {"markdown": "md", "json": "json"}[kind]
    day = timezone.localdate().isoformat()
    name = f"Gr%C3%B6%C3%9Fe%20a%20b%20x%20Set%20Cookie%20y%20{day}.{suffix}"
    assert disposition == f"attachment; filename*=utf-8''{name}"
    assert "no-store" in answer["Cache-Control"] and answer["X-Content-Type-Options"] == "nosniff"
    types = {"markdown": "text/markdown", "json": "application/json"}
    assert answer["Content-Type"] == f"{types[kind]}; charset=utf-8"
    assert "Set-Cookie" not in answer.headers


def test_a_title_without_letters_still_makes_a_name(owner: Member) -> None:
    day = timezone.localdate().isoformat()
    assert export.build_file_name(Conversation(owner=owner, title="../..")) == day
    assert export.build_file_name(Conversation(owner=owner, title="CON")) == f"CON {day}"


# --- Markdown -------------------------------------------------------------------------------
def test_markdown_has_what_the_page_shows_in_its_order(
    owner_client: Client, owner: Member, turn: Turn
) -> None:
    file = add_attachment(owner, turn.question)
    written = read_markdown(owner_client, turn.conversation)
    for text in (
        "# Which plants?\n",
        f"## {owner.display_name} · ",
        "\n\nWhich plants?\n",
        f"File: [plan (1).pdf](<http://testserver/attachments/{file.pk}/>)",
        "## Assistant (`demo:assistant`) · ",
        "**Thought for 3 seconds**\n\n```\nLook in the notebook first.\n```",
        "\n\nSome **roses**.\n\n",
        "**Tool call** `Delete note` (`notebook_delete_note`, `Demo notebook`)\n\n- done\n"
        f"- Allowed once by {owner.display_name}, ",
        '"password": "•••••• (14 characters, hidden)"',
        "```\n3 < 4 & <b>bold</b>\n```",
        "- [All \\[roses\\]](<https://example.org/roses>)",
        "> **Note:** Only 2 of 3 were read. Ask again.",
    ):
        assert text in written, text
        written = written[written.index(text) + len(text) - 2 :]


def test_how_a_call_ended_is_said_with_who_decided_and_why(
    owner_client: Client, owner: Member, turn: Turn
) -> None:
    denied = rows.call(turn, {}, ToolCall.State.DENIED)
    add_decided(owner, denied, "denied", "Not *that* one")
    rows.call(turn, {}, ToolCall.State.SUCCEEDED, why="This tool only reads.")
    held = rows.call(turn, {})
    Review.objects.create(
        tool_call=held,
        binding=rows.BINDING,
        state=Review.State.HELD_BACK,
        decided_by=owner,
        decided_at=timezone.now(),
        expires_at=timezone.now(),
    )
    written = read_markdown(owner_client, turn.conversation, "outcomes")
    name = owner.display_name
    assert f"- denied by {name}, " in written and "- “Not \\*that\\* one”" in written
    assert "- Policy decision: This tool only reads." in written
    assert "- done, withheld" in written and f"- Result withheld by {name}, " in written


def test_an_answer_that_is_not_finished_says_so(owner_client: Client, owner: Member) -> None:
    live = rows.turn(owner, Turn.State.RUNNING)
    assert "*This answer was not finished" in read_markdown(owner_client, live.conversation)
    stopped = rows.turn(owner, Turn.State.STOPPED)
    assert "*Stopped*" in read_markdown(owner_client, stopped.conversation)


def test_markdown_has_the_branch_that_is_shown_and_json_has_all(
    owner_client: Client, turn: Turn
) -> None:
    hidden = add_version(turn, "Which trees?")
    assert "Which trees?" not in read_markdown(owner_client, turn.conversation)
    messages = read_json(owner_client, turn.conversation)["messages"]
    assert [(each["id"], each["parent"], each["is_shown"]) for each in messages] == [
        (str(turn.question_id), None, True),
        (str(turn.answer_id), str(turn.question_id), True),
        (str(hidden.pk), None, False),
    ]
    assert messages[2]["parts"] == [{"kind": "text", "text": "Which trees?"}]


# --- JSON -----------------------------------------------------------------------------------
def test_json_has_the_documented_form(owner_client: Client, owner: Member, turn: Turn) -> None:
    file = add_attachment(owner, turn.question)
    found = read_json(owner_client, turn.conversation)
    assert (found["format"], found["version"], found["tool_calls"]) == (
        *("countersign-chat", 1),
        "full",
    )
    assert found["chat"]["id"] == str(turn.conversation_id)
    assert found["exported_at"].endswith("Z") and datetime.fromisoformat(found["exported_at"])
    question, answer = found["messages"]
    assert question["parts"][1] == {
        "kind": "file",
        "name": "plan (1).pdf",
        "origin": "PDF",
        "media_type": "application/pdf",
        "bytes": 12,
        "url": f"http://testserver/attachments/{file.pk}/",
        "description": "",
    }
    assert (answer["model"], answer["state"]) == (rows.MODEL, "done")
    kinds = [part["kind"] for part in answer["parts"]]
    assert kinds == ["reasoning", "text", "tool_call", "sources", "notice"]
    call = answer["parts"][2]
    assert call["state"] == "succeeded" and call["sent_at"].endswith("Z")
    assert call["approval"]["state"] == "granted"
    assert call["approval"]["by"] == owner.display_name
    assert call["arguments"] == {"title": "Roses", "password": "•••••• (14 characters, hidden)"}
    assert [piece["text"] for piece in call["result"]] == ["3 < 4 & <b>bold</b>"]


def test_every_field_of_the_json_is_documented(
    owner_client: Client, owner: Member, turn: Turn
) -> None:
    add_attachment(owner, turn.question)
    picture = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    rows.call(turn, {}, result={"content": picture})
    Turn.objects.update(instructions="Be brief.")
    text = DOCUMENT.read_text()
    missing = {
        name
        for name in list_names(read_json(owner_client, turn.conversation))
        if f"`{name}`" not in text
    }
    assert missing == set()


def list_names(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(list_names, value))
    if not isinstance(value, dict):
        return set()
    inner = [list_names(held) for name, held in value.items() if name != "arguments"]
    return set(value).union(*inner)


# --- what is left out -----------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tools", DETAILS)
def test_a_file_has_no_secret_no_draft_and_nothing_that_pages_do_not_show(
    owner_client: Client, owner: Member, turn: Turn, kind: str, tools: str
) -> None:
    chat = turn.conversation
    MessageDraft.objects.create(
        owner=owner, conversation=chat, text="DRAFTED", client_id=uuid.uuid4()
    )
    QueuedMessage.objects.create(conversation=chat, text="QUEUED", client_id=uuid.uuid4())
    bytes_of_picture = [{"type": "image", "data": "QUJDREVG" * 20, "mimeType": "image/png"}]
    rows.call(turn, {}, result={"content": bytes_of_picture})
    rows.call(turn, {}, result={"content": [{"type": "text", "text": "y" * 20_000 + "CUT"}]})
    written = fetch(owner_client, chat, kind, tools).content.decode()
    for hidden in (SECRET, "DRAFTED", "QUEUED", "QUJDREVG", "OPAQUE", "CUT"):
        assert hidden not in written, hidden
    assert ("notebook_delete_note" in written) == (tools != "none")
    for value in ("Roses", "3 < 4", "y" * 100):
        assert (value in written) == (tools == "full"), value
    assert drafts.find_draft(owner, chat) is not None


@pytest.mark.parametrize("address", ["export", "export?format=json&tools=full", "print"])
def test_others_and_the_owner_of_a_deleted_chat_get_nothing(
    owner_client: Client, stranger_client: Client, admin_client: Client, turn: Turn, address: str
) -> None:
    assert stranger_client.get(f"/c/{turn.conversation_id}/{address}").status_code == 404
    assert admin_client.get(f"/c/{turn.conversation_id}/{address}").status_code == 404
    Conversation.objects.filter(pk=turn.conversation_id).update(deleted_at=Now())
    assert owner_client.get(f"/c/{turn.conversation_id}/{address}").status_code == 404


# --- length ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tools", DETAILS)
def test_a_long_chat_needs_no_more_statements_than_a_short_one(
    owner_client: Client, owner: Member, kind: str, tools: str
) -> None:
    counts = []
    for length in (5, 50):
        made = rows.turns_of_chat(owner, length, calls=2)
        Turn.objects.filter(pk=made[0].pk).update(model="")
        for each in ToolCall.objects.filter(turn__in=made):
            add_decided(owner, each, "granted")
        with counted() as statements:
            written = fetch(owner_client, made[0].conversation, kind, tools).content.decode()
        assert written.count(f"Answer {length - 1}.") == 1
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 10


# --- print ----------------------------------------------------------------------------------
def test_the_print_view_has_the_whole_chat_with_everything_unfolded(
    owner_client: Client, owner: Member
) -> None:
    made = rows.turns_of_chat(owner, 50, calls=1)
    page = open_page(owner_client, f"/c/{made[0].conversation_id}/print")
    assert len(page.with_class("turn")) == 100 and page.one("h1").text == "Long"
    assert all("open" in each for each in page.all("details")) and page.all("details")
    assert not page.all("textarea") and not page.all("script")
    assert "hidden-char" not in page.text


def test_the_print_view_needs_the_same_statements_for_any_length(
    owner_client: Client, owner: Member
) -> None:
    counts = []
    for length in (5, 50):
        made = rows.turns_of_chat(owner, length, calls=2)
        with counted() as statements:
            open_page(owner_client, f"/c/{made[0].conversation_id}/print")
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 10


def test_a_very_long_chat_is_printed_in_parts(
    owner_client: Client, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PRINTED_MESSAGES", 60)
    made = rows.turns_of_chat(owner, 50)
    address = f"/c/{made[0].conversation_id}/print"
    newest = open_page(owner_client, address)
    assert len(newest.with_class("turn")) == 60
    link = next(each for each in newest.all("a") if each.text == "Earlier messages")
    earlier = open_page(owner_client, link["href"])
    assert [each.text for each in earlier.with_class("bubble")] == [
        f"Question {number}." for number in range(20)
    ]
    open_page(owner_client, f"{address}?before=1", 404)
    assert len(open_page(owner_client, f"{address}?before=x").with_class("turn")) == 60


def test_text_that_looks_like_a_fold_stays_text(owner_client: Client, owner: Member) -> None:
    made = rows.turn(owner, Turn.State.DONE, "<details class='x'>Hi")
    page = open_page(owner_client, f"/c/{made.conversation_id}/print")
    assert page.with_class("bubble")[0].text == "<details class='x'>Hi"


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_has_the_calls_of_its_first_chat(
    owner_client: Client, turn: Turn, kind: str
) -> None:
    fork = forks.fork_chat(turn.answer)
    written = fetch(owner_client, fork, kind).content.decode()
    assert "notebook_delete_note" in written and "Roses" in written and SECRET not in written
    assert "Message from a program" not in written and '"is_of_program": true' not in written
    assert "notebook_delete_note" not in fetch(owner_client, fork, kind, "none").content.decode()
