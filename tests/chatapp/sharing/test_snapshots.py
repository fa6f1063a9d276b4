"""What a link shows: the chat as it was when the link was made, whatever happens in it later."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.context import attachments
from chatapp.conversations import chat_list, forks, uploads
from chatapp.models import Attachment, Conversation, Member, Message, Part, SharedLink, Turn
from chatapp.people.refused import Refused
from chatapp.sharing import copies, links
from chatapp.views import shared_chats
from mcpconfig.values.results import ResourceContents, ResourcePart
from tests.dom_tree import parse
from tests.peers.reading_room import PNG
from tests.turns import rows

from .acts import Audience, Tools, get_path, open_link, read, share

pytestmark = pytest.mark.django_db


def list_texts(client: Client, link: SharedLink) -> list[str]:
    """Return the text of each message that the link shows."""
    turns = parse(read(open_link(client, link))).with_class("turn")
    return [
        (turn.with_class("bubble") + turn.with_class("prose"))[0].text.strip() for turn in turns
    ]


@pytest.fixture
def turns(owner: Member) -> list[Turn]:
    return rows.turns_of_chat(owner, 2)


WORDS = ["Question 0.", "Answer 0.", "Question 1.", "Answer 1."]


def add_turn(last: Turn, words: str) -> Turn:
    """Add a question and an answer after this turn."""
    seq = last.answer.created_seq
    chat = last.conversation
    question = Message.objects.create(
        conversation=chat, parent=last.answer, role="user", created_seq=seq + 1
    )
    Part.objects.create(message=question, position=0, kind="text", text=f"Question {words}")
    answer = Message.objects.create(
        conversation=chat, parent=question, role="assistant", created_seq=seq + 2
    )
    made = Turn.objects.create(
        conversation=chat, question=question, answer=answer, model=rows.MODEL, state="done"
    )
    rows.said(made, f"Answer {words}")
    return made


# --- time ----------------------------------------------------------------------------------------
def test_later_messages_appear_when_the_link_is_updated(
    turns: list[Turn], stranger_client: Client, owner_client: Client
) -> None:
    link = share(turns[0].conversation)
    add_turn(turns[1], "later.")
    assert list_texts(stranger_client, link) == WORDS
    assert (
        "Update the link" in owner_client.get(f"/c/{link.conversation_id}/share").content.decode()
    )

    assert owner_client.post(f"/shared-links/{link.pk}/update").status_code == 302
    assert list_texts(stranger_client, link) == [*WORDS, "Question later.", "Answer later."]
    assert SharedLink.objects.get().messages == 6


def test_what_is_added_to_the_last_answer_later_is_not_shown(
    turns: list[Turn], stranger_client: Client, owner_client: Client
) -> None:
    link = share(turns[0].conversation)
    page = f"/c/{link.conversation_id}/share"
    assert "Update the link" not in owner_client.get(page).content.decode()
    rows.said(turns[1], "And another thing.")
    assert "another thing" not in read(open_link(stranger_client, link))
    assert "Update the link" in owner_client.get(page).content.decode()


def test_a_link_keeps_its_branch_when_another_one_is_shown(
    turns: list[Turn], stranger_client: Client
) -> None:
    link = share(turns[0].conversation)
    other = Message.objects.create(
        conversation=link.conversation,
        parent=turns[1].question,
        role="assistant",
        created_seq=9,
    )
    made = Turn.objects.create(
        conversation=link.conversation,
        question=turns[1].question,
        answer=other,
        model=rows.MODEL,
        state="done",
    )
    rows.said(made, "Another answer.")
    Message.objects.filter(pk=turns[1].answer_id).update(is_shown=False)
    assert list_texts(stranger_client, link) == WORDS
    newer = share(link.conversation)
    assert list_texts(stranger_client, newer) == [*WORDS[:3], "Another answer."]


def test_a_call_that_is_run_again_later_shows_no_result_of_that(
    turns: list[Turn], stranger_client: Client
) -> None:
    call = rows.call(turns[1], {"title": "Ideas"}, "unknown", sent_at=timezone.now())
    link = share(turns[0].conversation, Tools.FULL)
    call.state, call.sent_at = "succeeded", timezone.now() + timedelta(seconds=1)
    call.result = {"content": [{"type": "text", "text": "Canary-later"}]}
    call.save()
    page = read(open_link(stranger_client, link))
    assert "Ideas" in page and "outcome unknown" in page and "Canary-later" not in page


LATER = timedelta(seconds=1)
RESULT = {"content": [{"type": "text", "text": "Canary-later"}]}


@pytest.mark.parametrize(
    "change",
    [
        # The result of a task that was still running when its answer was stopped.
        {"result": RESULT, "finished_at": LATER},
        # A person said that it worked.
        {"resolution": "worked", "resolved_at": LATER},
    ],
)
@pytest.mark.parametrize("tools", [Tools.OUTCOMES, Tools.FULL])
def test_an_outcome_that_became_known_later_is_not_shown(
    turns: list[Turn],
    stranger: Member,
    stranger_client: Client,
    owner_client: Client,
    change: dict[str, Any],
    tools: SharedLink.Tools,
) -> None:
    earlier = timezone.now()
    call = rows.call(turns[1], {}, "unknown", sent_at=earlier, finished_at=earlier)
    link = share(turns[0].conversation, tools)
    page = f"/c/{link.conversation_id}/share"
    assert "Update the link" not in owner_client.get(page).content.decode()
    call.state = "succeeded"
    for name, value in change.items():
        setattr(call, name, link.taken_at + value if value is LATER else value)
    call.save()
    shown = read(open_link(stranger_client, link))
    assert "outcome unknown" in shown and "Canary-later" not in shown
    made = copies.continue_chat(link, stranger)
    copied = Part.objects.get(message__conversation=made, kind="copied_call").copied_call
    assert copied is not None and copied["state"] == "unknown"
    assert "Canary-later" not in copied["outcome"]
    assert "Update the link" in owner_client.get(page).content.decode()

    SharedLink.objects.update(taken_at=link.taken_at + 2 * LATER)
    assert "outcome unknown" not in read(open_link(stranger_client, link))
    assert "Update the link" not in owner_client.get(page).content.decode()


def test_an_answer_that_is_continued_later_stays_as_it_was(
    owner: Member, stranger: Member, stranger_client: Client
) -> None:
    turn = rows.turn(owner, "stopped")
    rows.said(turn, "It is")
    link = share(turn.conversation)
    Turn.objects.filter(pk=turn.pk).update(state="done")
    rows.said(turn, "Later.")
    answer = parse(read(open_link(stranger_client, link))).with_class("turn")[1]
    assert answer.with_class("left-out")[0].text == "Stopped" and "Later" not in answer.text
    made = copies.continue_chat(link, stranger)
    texts = Part.objects.filter(message__conversation=made, message__role="assistant")
    assert [each.text for each in texts.order_by("position")] == [
        "It is",
        "[This answer was stopped.]",
    ]


@pytest.mark.parametrize(("state", "word"), [("stopped", "Stopped"), ("failed", "Interrupted")])
def test_an_answer_that_is_not_whole_says_so(
    owner: Member, stranger_client: Client, state: str, word: str
) -> None:
    turn = rows.turn(owner, state)
    page = parse(read(open_link(stranger_client, share(turn.conversation))))
    assert page.with_class("turn")[1].with_class("left-out")[0].text == word
    whole = rows.turn(owner, "done")
    assert word not in read(open_link(stranger_client, share(whole.conversation)))


def test_a_new_title_is_shown_after_an_update(turns: list[Turn], stranger_client: Client) -> None:
    link = share(turns[0].conversation)
    chat_list.rename(turns[0].conversation, "My secret plan")
    assert "My secret plan" not in read(open_link(stranger_client, link))
    link = SharedLink.of(turns[0].conversation.owner, link.pk)
    links.update(link)
    assert "My secret plan" in read(open_link(stranger_client, link))


def test_a_long_chat_is_shown_in_parts(
    turns: list[Turn], stranger_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_chats, "MESSAGES_AT_ONCE", 3)
    link = share(turns[0].conversation)
    first = read(open_link(stranger_client, link))
    assert "Question 1." in first and "Answer 1." not in first and "?from=4" in first
    second = read(open_link(stranger_client, link, "?from=4"))
    assert "Answer 1." in second and "Question 1." not in second and "?from=1" in second
    assert open_link(stranger_client, link, "?from=5").status_code == 404
    assert "Question 0." in read(open_link(stranger_client, link, "?from=x"))


# --- what cannot be shared -----------------------------------------------------------------------
def list_refusals(owner: Member) -> Iterator[tuple[Conversation, str]]:
    temporary = rows.turn(owner, "done").conversation
    Conversation.objects.filter(pk=temporary.pk).update(is_temporary=True)
    yield Conversation.objects.get(pk=temporary.pk), "Keep this chat first"
    yield rows.turn(owner, "running").conversation, "still working"
    yield rows.turn(owner, "waiting").conversation, "open request"
    yield Conversation.objects.create(owner=owner), "no messages yet"
    shown = rows.call(rows.turn(owner, "done"), {})
    yield rows.turn(owner, "done", app_of=shown).conversation, "a program or an app"


def test_a_chat_that_cannot_be_shared_is_refused_with_a_sentence(owner: Member) -> None:
    for chat, sentence in list_refusals(owner):
        with pytest.raises(Refused, match=sentence):
            share(chat)
    assert not SharedLink.objects.exists()


def test_a_link_for_anyone_is_refused_unless_the_server_allows_it(
    turns: list[Turn], owner_client: Client
) -> None:
    with pytest.raises(Refused, match="only people who are signed in"):
        share(turns[0].conversation, audience=Audience.ANYONE)
    form = {"audience": "anyone", "tools": "full", "days": "30", "includes_files": "on"}
    answer = owner_client.post(f"/c/{turns[0].conversation_id}/share", form)
    page = parse(answer.content.decode())
    assert answer.status_code == 422 and not SharedLink.objects.exists()
    assert "Choose people here" in page.all(role="alert")[0].text
    # What was chosen stays.
    chosen = {each["value"] for each in page.all("input", type="radio") if "checked" in each}
    assert "full" in chosen


def test_an_ended_link_is_not_updated(turns: list[Turn], owner: Member) -> None:
    link = share(turns[0].conversation)
    links.revoke(link)
    with pytest.raises(Refused, match="has ended"):
        links.update(SharedLink.of(owner, link.pk))


def test_a_chat_has_so_many_links(turns: list[Turn], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_LINKS", 1)
    link = share(turns[0].conversation)
    with pytest.raises(Refused, match="already has 1 links"):
        share(turns[0].conversation)
    links.revoke(link)
    share(turns[0].conversation)


def test_a_fork_can_be_shared(turns: list[Turn], stranger_client: Client) -> None:
    owner = turns[0].conversation.owner
    made = forks.fork_chat(forks.find_answer(owner, turns[0].conversation_id, turns[1].answer_id))
    assert list_texts(stranger_client, share(made)) == WORDS


# --- files ---------------------------------------------------------------------------------------
@pytest.fixture
def files(turns: list[Turn]) -> list[Attachment]:
    """A picture, a text file and a resource of a service, attached to the last question."""
    owner = turns[0].conversation.owner
    part = ResourcePart(uri="notes://1", mime_type="text/plain", text="Canary-resource")
    resource = attachments.store_draft(
        owner, rows.service(), "notes://1", "Letter", ResourceContents(parts=(part,))
    )
    given = {"dot.png": PNG, "plan.txt": b"Canary-file"}
    kept = [
        uploads.keep_file(owner, uploads.Upload(name=name, size=len(data), data=data))
        for name, data in given.items()
    ]
    attachments.attach_to_message(turns[1].question, [*kept, resource])
    return [*kept, resource]


def test_without_files_a_link_has_only_their_names(
    turns: list[Turn], files: list[Attachment], stranger_client: Client
) -> None:
    link = share(turns[0].conversation, Tools.FULL)
    page = read(open_link(stranger_client, link))
    assert all(each.name in page for each in files)
    assert "<img" not in page and not any(str(each.pk) in page for each in files)
    for each in files:
        assert stranger_client.get(f"{get_path(link)}files/{each.pk}").status_code == 404


def test_with_files_a_link_serves_those_of_its_messages(
    turns: list[Turn], files: list[Attachment], settings: Any
) -> None:
    settings.SHARE_WITH_ANYONE = True
    link = share(turns[0].conversation, audience=Audience.ANYONE, includes_files=True)
    reader = Client()
    page = parse(read(open_link(reader, link)))
    picture = page.one("img")["src"]
    answer = reader.get(picture)
    assert answer["Content-Type"] == "image/png" and answer.content == PNG
    texts = [reader.get(f"{get_path(link)}files/{each.pk}") for each in files[1:]]
    assert [each.content for each in texts] == [b"Canary-file", b"Canary-resource"]
    assert texts[0]["Content-Disposition"].startswith("attachment")
    for each in [answer, *texts]:
        assert "sandbox" in each["Content-Security-Policy"]
        assert each["X-Content-Type-Options"] == "nosniff"
    settings.SHARE_WITH_ANYONE = False
    assert reader.get(picture).status_code == 404


def test_a_link_serves_no_file_of_another_chat_branch_or_later_message(
    turns: list[Turn], owner: Member, stranger_client: Client
) -> None:
    upload = uploads.Upload(name="plan.txt", size=1, data=b"x")
    elsewhere, hidden, later, draft = (uploads.keep_file(owner, upload) for _ in range(4))
    attachments.attach_to_message(rows.turn(owner, "done").question, [elsewhere])
    other = Message.objects.create(
        conversation=turns[0].conversation, role="user", created_seq=1, is_shown=False
    )
    attachments.attach_to_message(other, [hidden])
    last = add_turn(turns[1], "next.")
    link = share(turns[0].conversation, includes_files=True)
    attachments.attach_to_message(add_turn(last, "later.").question, [later])
    for each in (elsewhere, hidden, later, draft):
        assert stranger_client.get(f"{get_path(link)}files/{each.pk}").status_code == 404
