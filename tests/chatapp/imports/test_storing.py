"""What an import makes: chats without rights, without doubles, each whole or not at all, logged
once, and taken back."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.conversations import chat_list, forks, intake, versions
from chatapp.conversations.search import Search, search_chats
from chatapp.engine.runtime import EngineRuntime
from chatapp.imports import import_acts, jobs, storing
from chatapp.imports.import_acts import ReceivedFile
from chatapp.imports.packed_files import PackedFiles
from chatapp.imports.reading import read_chats
from chatapp.models import (
    Approval,
    Attachment,
    ChatImport,
    Consent,
    Conversation,
    ImportPiece,
    ListedChat,
    LogEntry,
    Member,
    ToolCall,
    Turn,
    UsageOfDay,
)
from chatapp.policy.stored_policy import annotate_before, find_before, find_taint_before
from chatapp.server.database import in_database
from chatapp.sharing import copies
from chatapp.tools.taint import find_taint_of_chats
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.sharing.acts import share
from tests.chatapp.sharing.test_copies import begin_turn
from tests.scripted import calls
from tests.turns.acts import DELETE, wait_for_rest
from tests.turns.rows import MODEL

from . import samples
from .acts import import_chat, read, reload, run
from .samples import CHATGPT, CLAUDE, gpt_chat, gpt_node, to_json

pytestmark = pytest.mark.django_db(transaction=True)
MARK = "chat imported from ChatGPT"


# --- rights ------------------------------------------------------------------------------------
def test_an_import_makes_no_call_no_approval_and_no_usage(owner: Member) -> None:
    import_chat(owner, to_json(CHATGPT))
    for rows in (Turn, ToolCall, Approval, UsageOfDay):
        assert not rows._default_manager.exists()


def test_all_of_an_imported_chat_counts_as_untrusted_in_each_turn(owner: Member) -> None:
    chat = import_chat(owner, to_json(CHATGPT))
    asked, call = begin_turn(chat)
    assert find_taint_before(asked, call) == find_taint_of_chats([chat.pk]) == MARK
    row = annotate_before(ToolCall.objects.filter(pk=call.pk)).get()
    assert find_before(asked, row, is_as_read=True).tainted_by == MARK


def test_a_fork_and_a_link_of_an_imported_chat_stay_untrusted(owner: Member) -> None:
    chat = import_chat(owner, to_json(CHATGPT))
    asked, _call = begin_turn(chat)
    Turn.objects.filter(pk=asked.pk).update(state="done")
    fork = forks.fork_chat(forks.find_answer(owner, chat.pk, asked.answer_id))
    again = copies.continue_chat(share(fork), owner)
    for each in (fork, again):
        assert (each.is_shared_copy, each.tainted_by) == (True, MARK)


async def test_a_tool_allowed_in_advance_asks_in_an_imported_chat(
    runtime: EngineRuntime, owner: Member, notebook: Service
) -> None:
    def build() -> Turn:
        definition = notebook.definitions.get(name="delete_note")
        Consent.objects.create(
            person=owner,
            service=notebook,
            endpoint=notebook.endpoint,
            scope=Consent.Scope.TOOL,
            definitions={"delete_note": definition.hash},
        )
        chat = import_chat(owner, to_json(CHATGPT))
        return intake.receive(owner, chat, text="Delete it", model=scripted.MODEL)

    scripted.scenes.append(calls(DELETE))
    turn = await wait_for_rest(runtime, await in_database(build))
    call = await in_database(lambda: ToolCall.objects.get(turn=turn))
    assert call.state == ToolCall.State.AWAITING_APPROVAL
    assert f"untrusted content from “{MARK}”" in call.why


async def test_the_model_reads_the_imported_messages_with_their_calls(
    runtime: EngineRuntime, owner: Member
) -> None:
    def build() -> Turn:
        chat = import_chat(owner, to_json(CHATGPT))
        return intake.receive(owner, chat, text="And now?", model=scripted.MODEL)

    scripted.scenes.append(scripted.text("Now it is spring."))
    turn = await wait_for_rest(runtime, await in_database(build))
    assert turn.state == Turn.State.DONE
    history = repr(scripted.requests[-1].history)
    for words in ("How deep is this pond?", "print(2 + 2)", "With pleasure.", "And now?"):
        assert words in history
    assert "About a metre." not in history  # of the version that is not shown


# --- pages -------------------------------------------------------------------------------------
def test_the_page_shows_the_source_the_versions_and_safe_markdown(
    owner: Member, owner_client: Client
) -> None:
    answer = "<script>alert(1)</script> [x](javascript:alert(2)) **bold**"
    nodes = [
        gpt_node("a", None, "user", "Hi"),
        gpt_node("b", "a", "assistant", answer),
        gpt_node("c", "a", "assistant", "Other", seconds=5),
    ]
    chat = import_chat(owner, to_json(gpt_chat(*nodes, current="b")))
    page = owner_client.get(f"/c/{chat.pk}/").content.decode()
    assert "Imported from ChatGPT" in page
    assert "<strong>bold</strong>" in page
    assert "<script>alert" not in page and 'href="javascript' not in page
    assert "Version 1 of 2" in page
    other = chat.messages.get(is_shown=False)
    shown = owner_client.post(f"/c/{chat.pk}/version", {"message": str(other.pk)})
    assert shown.status_code in (204, 302)
    assert "Version 2 of 2" in owner_client.get(f"/c/{chat.pk}/").content.decode()


def test_imported_messages_are_found_by_search_and_sorted_by_their_dates(owner: Member) -> None:
    recent = Conversation.objects.create(owner=owner, title="Recent")
    chat = import_chat(owner, to_json(CHATGPT))
    assert [each.conversation for each in search_chats(owner, Search(text="four deep")).chats] == [
        chat
    ]
    listed = search_chats(owner, Search(text="")).chats
    assert [each.conversation for each in listed] == [recent, chat]
    assert not listed[1].conversation.has_news


# --- doubles -----------------------------------------------------------------------------------
def test_the_same_file_twice_makes_no_doubles_unless_asked(owner: Member) -> None:
    chat = import_chat(owner, to_json(CHATGPT))
    ready = read(owner, to_json(CHATGPT))
    listed = ready.chats.get()
    assert (listed.twin, listed.is_selected) == (chat, False)
    import_acts.select_all(ready, is_on=True)
    assert not ready.chats.get().is_selected
    import_acts.select(ready, [0], [0])
    run(ready)
    assert Conversation.objects.count() == 2


def test_a_chat_that_was_deleted_can_be_imported_again(owner: Member) -> None:
    chat = import_chat(owner, to_json(CHATGPT))
    Conversation.objects.filter(pk=chat.pk).update(deleted_at=timezone.now())
    assert read(owner, to_json(CHATGPT)).chats.get().is_selected


def test_a_chat_without_an_id_is_known_by_its_beginning(owner: Member) -> None:
    nameless = CHATGPT | {"id": None, "conversation_id": None}
    chat = import_chat(owner, to_json(nameless))
    assert read(owner, to_json(nameless)).chats.get().twin == chat


def test_what_others_imported_is_not_known(owner: Member, stranger: Member) -> None:
    import_chat(stranger, to_json(CHATGPT))
    assert read(owner, to_json(CHATGPT)).chats.get().twin is None


def test_a_chat_twice_in_one_file_is_selected_once(owner: Member) -> None:
    ready = read(owner, to_json(CHATGPT, CHATGPT))
    assert [each.is_selected for each in ready.chats.all()] == [True, False]
    ready.chats.update(is_selected=True)
    assert run(ready).progress == Conversation.objects.count() == 2


def test_a_task_that_runs_again_stores_nothing_twice(owner: Member) -> None:
    ready = read(owner, to_json(CHATGPT, CLAUDE))
    jobs.read_file.func(str(ready.pk))
    done = run(ready)
    ChatImport.objects.filter(pk=done.pk).update(state="importing")
    jobs.import_selected.func(str(done.pk))
    assert Conversation.objects.count() == 2


def test_a_long_import_goes_on_in_another_run(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "RUN_SECONDS", 0)
    ready = read(owner, to_json(CHATGPT, CLAUDE))
    begun = run(ready)
    assert (begun.state, begun.progress, Conversation.objects.count()) == ("importing", 1, 1)
    jobs.import_selected.func(str(ready.pk))
    assert (reload(ready).state, Conversation.objects.count()) == ("done", 2)


def test_chats_that_are_not_wanted_are_not_read_again(owner: Member) -> None:
    ready = read(owner, to_json(CHATGPT, CLAUDE, CHATGPT))
    assert [each and each.number for each in read_chats(ready, PackedFiles(), {1})] == [1]


# --- the log, undo and the file ------------------------------------------------------------------
def test_an_import_is_one_entry_of_the_log_without_titles(owner: Member) -> None:
    run(read(owner, to_json(CHATGPT, CLAUDE)))
    entry = LogEntry.objects.get(kind=LogEntry.Kind.CHATS_IMPORTED)
    data = json.loads(entry.data)
    assert (entry.person_name, data["of"], data["chats"]) == (owner.username, "ChatGPT", 2)
    assert "Ponds" not in entry.data


def test_undo_deletes_the_chats_but_not_those_that_went_on(owner: Member) -> None:
    done = run(read(owner, to_json(CHATGPT, CLAUDE)))
    went_on = Conversation.objects.get(title="Ponds")
    begin_turn(went_on)
    assert storing.undo(done) == 1
    assert [each.title for each in Conversation.filter_owned(owner)] == ["Ponds"]
    assert storing.undo(reload(done)) == 0
    assert LogEntry.objects.filter(kind=LogEntry.Kind.IMPORT_UNDONE).count() == 1


def test_undo_keeps_a_chat_in_which_a_message_was_edited_and_a_fork(owner: Member) -> None:
    done = run(read(owner, to_json(CHATGPT, CLAUDE)))
    edited, forked = (each.conversation for each in done.chats.order_by("pk"))
    assert edited is not None and forked is not None
    first = edited.messages.filter(role="user").order_by("created_seq")[0]
    found = versions.find_message(owner, edited.pk, first.pk)
    versions.edit_message(owner, found, text="How wide?", model=MODEL)
    answer = forked.messages.get(role="assistant")
    fork = forks.fork_chat(forks.find_answer(owner, forked.pk, answer.pk))
    assert storing.undo(done) == 1
    left = Conversation.objects.filter(deleted_at=None)
    assert set(left) == {edited, fork}


def test_the_file_is_forgotten_after_the_import_or_a_day(owner: Member) -> None:
    ready = read(owner, to_json(CHATGPT))
    import_acts.delete_old_files()
    assert ImportPiece.objects.filter(chat_import=ready).exists()
    ChatImport.objects.update(begun_at=timezone.now() - timedelta(days=1, minutes=1))
    import_acts.delete_old_files()
    assert not ImportPiece.objects.exists() and not ChatImport.objects.exists()
    run(read(owner, to_json(CHATGPT)))
    assert not ImportPiece.objects.exists()


def test_a_file_is_stored_and_forgotten_without_one_long_transaction(owner: Member) -> None:
    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert not connection.in_atomic_block
            return super().read(size)

    data = bytes(3_500_000)
    received = ReceivedFile(name="x.zip", size=len(data), data=Watched(data))
    begun = import_acts.begin(owner, received)
    assert begun.pieces.count() == 4
    with CaptureQueriesContext(connection) as statements:
        import_acts.discard(begun)
    deleted = [each["sql"] for each in statements if "DELETE" in each["sql"]]
    assert len([each for each in deleted if "importpiece" in each]) >= 4
    assert not ImportPiece.objects.exists() and not ChatImport.objects.exists()


def test_a_file_that_cannot_be_received_leaves_no_open_import(owner: Member) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError("The disk is gone.")
            return super().read(size)

    received = ReceivedFile(name="x.zip", size=3_000_000, data=Broken(bytes(3_000_000)))
    with pytest.raises(OSError, match="disk"):
        import_acts.begin(owner, received)
    assert not ImportPiece.objects.exists() and not ChatImport.objects.exists()


def test_a_file_that_a_killed_server_left_is_forgotten(owner: Member) -> None:
    done = run(read(owner, to_json(CHATGPT)))
    ImportPiece.objects.create(chat_import=done, number=0, data=b"x")
    ChatImport.objects.update(begun_at=timezone.now() - timedelta(days=2))
    import_acts.delete_old_files()
    assert not ImportPiece.objects.exists()
    assert reload(done).state == "done"


def test_a_long_text_of_a_file_is_cut_between_characters(owner: Member, settings: Any) -> None:
    settings.FILE_MAX_BYTES = 2
    source = json.loads(json.dumps(CLAUDE).replace("Forty herons in March", "xü!"))
    chat = import_chat(owner, to_json(source))
    kept = Attachment.objects.get(part__message__conversation=chat)
    assert (bytes(kept.file.data), kept.size, kept.was_cut) == (b"x", 1, True)


def test_a_file_in_several_pieces_is_read_as_one(owner: Member, monkeypatch: Any) -> None:
    many = [
        gpt_chat(gpt_node("a", None, "user", "x" * 9_000), id=str(n), conversation_id=str(n))
        for n in range(300)
    ]
    ready = read(owner, samples.to_zip({"conversations.json": to_json(*many), "b.bin": bytes(3)}))
    assert ready.chats.count() == 300
    ready = read(Member.objects.create_user("other"), to_json(*many))
    assert (ready.chats.count(), ImportPiece.objects.filter(chat_import=ready).count()) == (300, 3)


def test_a_chat_that_cannot_be_stored_keeps_no_other_out(
    owner: Member, stranger: Member, owner_client: Client
) -> None:
    ready = read(owner, to_json(CHATGPT, CLAUDE))
    # The database refuses a second file with this name. Only the chat of Claude has one.
    Attachment.objects.create(
        owner=stranger, name="herons.txt", mime_type="text/plain", size=1, contents=[]
    )
    with connection.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX one_file_of_a_name ON chatapp_attachment (name)")
    try:
        done = run(ready)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX one_file_of_a_name")
    assert [each.title for each in Conversation.objects.all()] == ["Ponds"]
    assert (done.state, done.progress) == ("done", 1)
    page = owner_client.get(f"/imports/{done.pk}/").content.decode()
    assert "1 chat could not be stored and is missing." in page


def test_a_chat_that_is_removed_later_leaves_no_title_and_is_not_missed(
    owner: Member, owner_client: Client
) -> None:
    done = run(read(owner, to_json(CHATGPT, CLAUDE)))
    old = timezone.now() - timedelta(days=8)
    Conversation.objects.filter(title="Ponds").update(deleted_at=old)
    chat_list.remove_old()
    assert [each.title for each in done.chats.all()] == ["Heron report"]
    page = owner_client.get(f"/imports/{done.pk}/").content.decode()
    assert "2 chats were imported" in page
    assert "missing" not in page


def test_the_import_of_a_deleted_account_ends_without_a_trace(owner: Member) -> None:
    ready = read(owner, to_json(CHATGPT, CLAUDE))
    import_acts.start(ready)
    left = ChatImport.objects.select_related("person").get()
    owner.delete()
    assert not storing.import_chats(left)
    jobs.read_file.func(str(ready.pk))
    jobs.import_selected.func(str(ready.pk))
    for rows in (ChatImport, ImportPiece, ListedChat, Conversation):
        assert not rows._default_manager.exists()
