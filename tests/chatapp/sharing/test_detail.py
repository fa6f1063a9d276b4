"""Nothing that the owner of a chat left out is in what others get: neither in the bytes of the page
nor in the rows of a copy. Each value that could leak is a canary of its own."""

import json
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from chatapp.context import attachments, withheld_results
from chatapp.conversations import forks
from chatapp.models import (
    Approval,
    Conversation,
    Member,
    Part,
    Review,
    SharedLink,
    Summary,
    ToolCall,
    Turn,
)
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.sharing import copies
from mcpconfig.values.results import ResourceContents, ResourcePart
from tests.dom_tree import parse
from tests.turns import rows

from .acts import Tools, get_path, open_link, read, share

pytestmark = pytest.mark.django_db

# What only arguments and results bring.
VALUES = {"Canary-argument", "Canary-result", "Canary-structured", "Canary-error"}
VALUES |= {"Canary-copied-argument", "Canary-copied-result"}
# What no link shows.
NEVER = {"Canary-thought", "Canary-notice", "Canary-summary", "Canary-instructions"}
NEVER |= {"Canary-opaque", "Canary-reason", "Canary-why", "Canary-review", "Canary-withheld"}
NEVER |= {"Canary-secret", "Canary-draft", "Canary-copied-reason"}
SHOWN = {"Canary-question", "Canary-answer"}


@pytest.fixture
def chat(owner: Member, admin: Member) -> Conversation:
    turn = rows.turn(owner, "done", text="Canary-question")
    add_calls(turn, admin)
    add_copied_calls(turn)
    rows.said(turn, "Canary-answer", opaque={"provider": "demo", "data": "Canary-opaque"})
    rows.said(turn, "Canary-thought", "reasoning")
    notice = rows.said(turn, "Canary-notice", "notice", notice_kind="summary", hint="Canary-notice")
    Summary.objects.create(
        conversation=turn.conversation, part=notice, turns=1, text="Canary-summary", model="x"
    )
    Conversation.objects.filter(pk=turn.conversation_id).update(instructions="Canary-instructions")
    turn.conversation.queued_messages.create(text="Canary-draft", model=rows.MODEL)
    return Conversation.objects.get(pk=turn.conversation_id)


def add_calls(turn: Turn, admin: Member) -> None:
    given = {"title": "Canary-argument", "password": "Canary-secret"}
    result = {
        "content": [{"type": "text", "text": "Canary-result"}],
        "structured": {"cell": "Canary-structured"},
        "is_error": False,
    }
    rows.call(turn, given, result=result, why="Asked because of Canary-why.")
    rows.call(turn, {}, "failed", error={"message": "Canary-error", "hint": ""})
    denied = rows.call(turn, {}, "denied", why="Canary-why")
    Approval.objects.create(
        tool_call=denied,
        binding=rows.BINDING,
        state="denied",
        decided_by=admin,
        decided_at=timezone.now(),
        reason="Canary-reason",
        expires_at=timezone.now(),
    )
    add_withheld_call(turn, admin)


def add_withheld_call(turn: Turn, admin: Member) -> None:
    text = [{"type": "text", "text": "Canary-withheld"}]
    withheld = rows.call(turn, {}, result={"content": text})
    Review.objects.create(
        tool_call=withheld,
        binding=withheld_results.hash_result(withheld),
        state=Review.State.HELD_BACK,
        decided_by=admin,
        reason="Canary-review",
        expires_at=timezone.now(),
    )


def add_copied_calls(turn: Turn) -> None:
    """Calls as a fork has them, as if this chat were one."""
    values: dict[str, Any] = {
        "call_id": "call-copied",
        "tool_id": "notebook_read_note",
        "arguments": json.dumps({"title": "Canary-copied-argument", "token": "Canary-secret"}),
        "changed_arguments": "",
        "outcome": "Canary-copied-result",
        "is_error": False,
        "title": "Read note",
        "service": "Notebook",
        "state": "succeeded",
        "result_of": None,
    }
    denied = values | {"state": "denied", "outcome": "They said: Canary-copied-reason"}
    denied |= {"call_id": "call-denied", "arguments": "{}"}
    for each in (values, denied):
        copied = CopiedCall(**each).store()
        rows.said(turn, "", "copied_call", copied_call=copied)


def find_canaries(text: str) -> set[str]:
    known = VALUES | NEVER | SHOWN
    # One name may begin another.
    return {each for each in known if each in text.replace("Canary-copied", "Copied-canary")} | {
        each for each in known if each.startswith("Canary-copied") and each in text
    }


def read_rows_of_copy(link: SharedLink, person: Member) -> str:
    """Return everything that is stored for this person's copy, in whatever table."""
    before = {row for rows_of in dump_rows().values() for row in rows_of}
    copies.continue_chat(link, person)
    after = dump_rows()
    return "\n".join(row for rows_of in after.values() for row in rows_of if row not in before)


def dump_rows() -> dict[str, list[str]]:
    return {
        model._meta.label: [repr(row) for row in model._base_manager.values_list()]
        for model in apps.get_app_config("chatapp").get_models()
    }


@pytest.mark.parametrize(
    ("tools", "expected"),
    [(Tools.NONE, SHOWN), (Tools.OUTCOMES, SHOWN), (Tools.FULL, SHOWN | VALUES)],
)
def test_no_value_that_was_left_out_leaves_the_chat(
    chat: Conversation,
    stranger: Member,
    stranger_client: Client,
    tools: SharedLink.Tools,
    expected: set[str],
) -> None:
    link = share(chat, tools)
    assert find_canaries(read(open_link(stranger_client, link))) == expected
    asking = stranger_client.get(get_path(link) + "continue").content.decode()
    assert find_canaries(asking) == {"Canary-question"}  # the title
    assert find_canaries(read_rows_of_copy(link, stranger)) == expected


@pytest.mark.parametrize("is_old", [False, True])
def test_a_fork_of_a_withheld_call_shows_no_reason(
    owner: Member, admin: Member, stranger: Member, stranger_client: Client, is_old: bool
) -> None:
    """`is_old`: the fork was made before copied calls said that a result is withheld."""
    turn = rows.turn(owner, "done", text="Canary-question")
    add_withheld_call(turn, admin)
    fork = forks.fork_chat(turn.answer)
    part = Part.objects.get(message__conversation=fork, kind="copied_call")
    assert part.copied_call is not None and part.copied_call["is_withheld"]
    assert "Canary-review" in part.copied_call["outcome"]
    if is_old:
        del part.copied_call["is_withheld"]
        part.save()
    link = share(fork, Tools.FULL)
    page = read(open_link(stranger_client, link))
    assert find_canaries(page) == {"Canary-question"}
    assert "The result was withheld." in page
    stored = read_rows_of_copy(link, stranger)
    assert find_canaries(stored) == {"Canary-question"}
    assert "The result was withheld." in stored


def test_a_resource_without_a_name_shows_no_uri(
    owner: Member, stranger: Member, stranger_client: Client
) -> None:
    turn = rows.turn(owner, "done")
    part = ResourcePart(uri="notes://Canary-uri", mime_type="text/plain", text="Canary-resource")
    kept = attachments.store_draft(
        owner, rows.service(), "notes://Canary-uri", "", ResourceContents(parts=(part,))
    )
    attachments.attach_to_message(turn.question, [kept])
    link = share(turn.conversation, Tools.FULL)
    page = read(open_link(stranger_client, link))
    assert "Canary" not in page and "Resource" in page
    stored = read_rows_of_copy(link, stranger)
    assert "Canary" not in stored and "[Attached file, not shared: Resource]" in stored


def test_outcomes_are_names_and_words(chat: Conversation, stranger_client: Client) -> None:
    page = parse(read(open_link(stranger_client, share(chat, Tools.OUTCOMES))))
    lines = [" ".join(each.text.split()) for each in page.with_class("tool")]
    assert lines == [
        "Delete note Demo notebook done",
        "Delete note Demo notebook failed",
        "Delete note Demo notebook denied",
        "Delete note Demo notebook done",
        "Read note Notebook done",
        "Read note Notebook denied",
    ]


def test_without_tool_calls_not_even_their_names_are_shared(
    chat: Conversation, stranger_client: Client
) -> None:
    page = read(open_link(stranger_client, share(chat, Tools.NONE)))
    assert "Delete note" not in page and "notebook" not in page.lower()


def test_a_page_has_no_id_of_the_chat_its_messages_or_its_calls(
    chat: Conversation, stranger_client: Client
) -> None:
    page = read(open_link(stranger_client, share(chat, Tools.FULL)))
    ids = [chat.pk, *ToolCall.objects.values_list("pk", flat=True)]
    ids += chat.messages.values_list("pk", flat=True)
    assert not [each for each in ids if str(each) in page or each.hex in page]


def test_text_of_people_models_and_services_is_escaped(
    owner: Member, stranger_client: Client
) -> None:
    markup = "<script>alert(1)</script>"
    turn = rows.turn(owner, "done", text=markup)
    rows.said(turn, markup)
    result = {"content": [{"type": "text", "text": markup}]}
    rows.call(turn, {"title": markup}, result=result, tool_name=markup)
    Part.objects.create(
        message=turn.answer,
        step=2,
        position=9,
        kind="sources",
        sources=[{"url": "https://news.example/", "title": markup}],
    )
    page = read(open_link(stranger_client, share(turn.conversation, Tools.FULL)))
    assert "<script" not in page and "&lt;script&gt;" in page
    assert 'href="https://news.example/"' in page
