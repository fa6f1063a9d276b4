"""Pictures and files come along with their messages, are stored where the settings say, and go with
their chats."""

import io
import json
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.accounts.personal_data import write_archive
from chatapp.background import jobs as background_jobs
from chatapp.context import file_storage
from chatapp.context.file_storage import read_bytes
from chatapp.conversations import chat_list, forks, intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.imports import brought_files, packed_files, storing
from chatapp.models import Attachment, Conversation, File, ListedChat, Member, StoredObject, Turn
from chatapp.providers.request import UserMessage
from chatapp.server.database import in_database
from chatapp.sharing import copies
from tests import scripted
from tests.chatapp.files import papers
from tests.chatapp.sharing.acts import open_link, share
from tests.chatapp.sharing.acts import read as read_link
from tests.chatapp.sharing.test_copies import begin_turn
from tests.chatapp.stored_objects import folder, make_old, objects
from tests.turns.acts import wait_for_rest

from . import pictures, samples
from .acts import import_chat, read, reload, run
from .pictures import (
    GIF,
    JPEG,
    PAGE,
    WEBP,
    data_uri,
    gpt_files,
    gpt_with,
    gpt_zip,
    png,
    webui_with,
)
from .samples import gpt_chat, gpt_node, to_json, to_zip

__all__ = ["folder"]
pytestmark = pytest.mark.django_db(transaction=True)
MARK = "chat imported from ChatGPT"
ONE = "file-service://file-AbCd"
UUID = "11111111-2222-4333-8444-555555555555"


def list_files(chat: Conversation) -> list[tuple[str, str, bytes]]:
    """Return the name, the type and the bytes of each file of a chat, in order."""
    files = Attachment.objects.filter(part__message__conversation=chat)
    rows = files.order_by("part__message__created_seq", "part__position")
    return [(each.name, each.mime_type, read_bytes(each.file)) for each in rows]


def list_texts(chat: Conversation) -> list[str]:
    parts = [part for each in chat.messages.all() for part in each.parts.all()]
    return [part.text for part in parts if part.kind == "text"]


def one_picture(person: Member) -> Conversation:
    return import_chat(person, gpt_zip(gpt_with(ONE), {"file-AbCd-pond.png": png()}))


# --- formats -----------------------------------------------------------------------------------
def test_the_zip_file_of_chatgpt_brings_its_pictures(owner: Member) -> None:
    listed = gpt_files(
        {"id": "file-AbCd", "name": "My pond.png"},
        {"id": "file_0000ef", "name": "frog.svg", "mime_type": "image/svg+xml"},
    )
    made = [
        gpt_node("q", None, "user", pictures.pointer(ONE), "Draw it at night.", metadata=listed),
        gpt_node(
            *("call", "q", "assistant", '{"prompt": "pond"}'),
            recipient="t2uay3k.sj1i4kz",
            seconds=1,
        ),
        gpt_node(
            *("made", "call", "tool", pictures.pointer("sediment://file_0000ab")),
            name="t2uay3k.sj1i4kz",
            seconds=2,
        ),
        gpt_node("a", "made", "assistant", "Here it is.", seconds=3),
    ]
    files = {
        "user-x1/file-AbCd-1f2e.png": png(),
        "dalle-generations/file_0000ab.dat": WEBP,
        "file_0000ef-frog.svg": b"<svg/>",
    }
    chat = import_chat(owner, gpt_zip(gpt_chat(*made), files))
    assert list_files(chat) == [
        ("My pond.png", "image/png", png()),
        ("picture.webp", "image/webp", WEBP),
    ]
    left_out = "[Picture, not imported: frog.svg (of a kind that cannot be attached)]"
    assert list_texts(chat) == ["Draw it at night.", left_out, "Here it is."]


def test_documents_of_chatgpt_are_read_as_if_they_were_attached(owner: Member) -> None:
    listed = gpt_files(
        {"id": "file-P1", "name": "herons.pdf", "mime_type": "application/pdf"},
        {"id": "file-P2", "name": "notes.txt", "mime_type": "text/plain"},
        {"id": "file-P3", "name": "locked.pdf", "mime_type": "application/pdf"},
        {"id": "file-P4", "name": "tool.exe", "mime_type": "application/x-msdownload"},
    )
    files = {
        "file-P1-herons.pdf": papers.pdf("Forty herons"),
        "file-P2-notes.txt": "Käfer".encode("utf-16"),
        "file-P3-locked.pdf": papers.encrypted("secret"),
        "file-P4-tool.exe": b"MZ\x00\x01",
    }
    ready = read(owner, gpt_zip(gpt_with(metadata=listed), files))
    assert ready.chats.get().losses == {"files_brought": 3, "files_kind": 1}
    chat = run(ready).chats.get().conversation
    assert chat is not None
    assert [each[:2] for each in list_files(chat)] == [
        ("herons.pdf", "application/pdf"),
        ("notes.txt", "text/plain"),
    ]
    pdf, text = Attachment.objects.order_by("part__position")
    assert (pdf.file.words, pdf.file.pages) == ("[Page 1]\nForty herons", 1)
    assert (bytes(text.file.data), text.size) == ("Käfer".encode(), 6)
    assert list_texts(chat)[1:3] == [
        "[File, not imported: locked.pdf (could not be read)]",
        "[File, not imported: tool.exe (of a kind that cannot be attached)]",
    ]


def test_pictures_of_open_webui_are_in_its_chats(owner: Member) -> None:
    files = (
        {"type": "image", "url": data_uri(GIF, "image/gif")},
        {"type": "image", "url": f"/api/v1/files/{UUID}/content", "name": "gone.png"},
    )
    inline = f"Before\n\n![a pond]({data_uri(JPEG, 'image/jpeg')})\n\nafter"
    part = {"type": "image_url", "image_url": {"url": data_uri(png())}}
    content = [{"type": "text", "text": inline}, part]
    ready = read(owner, webui_with(*files, content=content))
    assert ready.chats.get().losses == {"pictures_brought": 3, "pictures_missing": 1, "dates": 1}
    chat = run(ready).chats.get().conversation
    assert chat is not None
    assert list_files(chat) == [
        ("a pond.jpeg", "image/jpeg", JPEG),
        ("picture.png", "image/png", png()),
        ("picture.gif", "image/gif", GIF),
    ]
    gone = "[Picture, not imported: gone.png (not in the export)]"
    assert list_texts(chat) == ["Before", "after", gone]


def test_pictures_of_librechat_are_in_the_chat_or_beside_it(owner: Member) -> None:
    listed = [
        {"file_id": UUID, "filename": "pond.png", "type": "image/png", "filepath": "/i/u/x.png"},
        {"file_id": "2", "filename": "frog.png", "type": "image/png", "filepath": data_uri(png(1))},
    ]
    content = [{"type": "image_file", "image_file": {"filepath": "/images/u/made.png"}}]
    nodes = [
        samples.libre_message("l1", samples.NO_PARENT, is_user=True, text="Look", files=listed),
        samples.libre_message("l2", "l1", is_user=False, content=content),
    ]
    archive = to_zip(
        {
            "chat.json": json.dumps(samples.LIBRECHAT | {"messages": nodes}).encode(),
            f"uploads/{UUID}__pond.png": png(2),
            "images/made.png": png(3),
        }
    )
    assert list_files(import_chat(owner, archive)) == [
        ("pond.png", "image/png", png(2)),
        ("frog.png", "image/png", png(1)),
        ("made.png", "image/png", png(3)),
    ]


def test_claude_names_its_pictures_only(owner: Member) -> None:
    archive = gpt_zip(samples.CLAUDE, {"map.png": png()})
    losses = read(owner, archive).chats.get().losses
    assert losses == {"calls": 1, "files_brought": 1, "pictures_missing": 1}


def test_the_archive_of_a_person_brings_its_files_back(owner: Member, stranger: Member) -> None:
    one_picture(owner)
    target = io.BytesIO()
    write_archive(owner, target, "http://testserver")
    ready = read(stranger, target.getvalue())
    assert ready.chats.get().losses["pictures_brought"] == 1
    chat = run(ready).chats.get().conversation
    assert chat is not None
    assert list_files(chat) == [("pond.png", "image/png", png())]


# --- what cannot come along ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("files", "reason", "words"),
    [
        ({}, "missing", "not in the export"),
        ({"file-AbCd.png": PAGE}, "kind", "of a kind that cannot be attached"),
        ({"file-AbCd.png": png() + bytes(2_000_000)}, "large", "too large"),
        ({"file-AbCd.png": b""}, "damaged", "damaged"),
    ],
)
def test_a_picture_that_cannot_come_along_says_why(
    owner: Member, settings: Any, files: dict[str, bytes], reason: str, words: str
) -> None:
    settings.FILE_MAX_BYTES = 1_000_000
    ready = read(owner, gpt_zip(gpt_with(ONE), files))
    assert ready.chats.get().losses == {f"pictures_{reason}": 1}
    chat = run(ready).chats.get().conversation
    assert chat is not None
    assert list_texts(chat)[0] == f"[Picture, not imported ({words})]"
    assert not Attachment.objects.exists()


def test_a_message_has_no_more_files_than_one_that_is_sent(owner: Member, settings: Any) -> None:
    settings.MESSAGE_MAX_FILES = 2
    files = {f"file-{number}.png": png(number) for number in range(3)}
    chat = gpt_with(*(f"file-service://file-{number}" for number in range(3)))
    ready = read(owner, gpt_zip(chat, files))
    assert ready.chats.get().losses == {"pictures_brought": 2, "pictures_message": 1}
    made = run(ready).chats.get().conversation
    assert made is not None
    assert "(too many files in one message)" in list_texts(made)[0]
    Conversation.objects.all().delete()
    settings.MESSAGE_MAX_FILES, settings.MESSAGE_MAX_BYTES = 10, len(png()) + 100
    assert len(list_files(import_chat(owner, gpt_zip(chat, files)))) == 1


def test_one_entry_in_many_messages_ends_at_the_limit(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive of a few bytes could otherwise fill the disk."""
    monkeypatch.setattr(packed_files, "MAX_FILES", 3)
    nodes = [gpt_node(f"{number}", None, "user", pictures.pointer(ONE)) for number in range(5)]
    ready = read(owner, gpt_zip(gpt_chat(*nodes), {"file-AbCd.png": png()}))
    assert ready.chats.get().losses == {"pictures_brought": 3, "pictures_many": 2}
    run(ready)
    assert Attachment.objects.count() == 3


def test_what_earlier_runs_stored_counts_for_the_limit(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "RUN_SECONDS", 0)
    chats = [gpt_with(ONE) | {"id": each, "conversation_id": each} for each in "ab"]
    data = to_zip({"conversations.json": to_json(*chats), "file-AbCd.png": png()})
    ready = run(read(owner, data))
    assert (Conversation.objects.count(), Attachment.objects.count()) == (1, 1)
    monkeypatch.setattr(packed_files, "MAX_FILES", 1)
    storing.import_chats(reload(ready))
    assert (Conversation.objects.count(), Attachment.objects.count()) == (2, 1)


def test_documents_of_a_chat_are_read_for_a_limited_time(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brought_files, "DOCUMENTS_SECONDS", -1)
    listed = gpt_files({"id": "file-P1", "name": "herons.pdf", "mime_type": "application/pdf"})
    archive = gpt_zip(
        gpt_with(ONE, metadata=listed), {"file-P1.pdf": papers.pdf("x"), "file-AbCd.png": png()}
    )
    chat = import_chat(owner, archive)
    assert [each[1] for each in list_files(chat)] == ["image/png"]
    assert "[File, not imported: herons.pdf (could not be read)]" in list_texts(chat)


def test_a_reference_finds_no_file_of_anybody_on_the_server(
    owner: Member, stranger: Member
) -> None:
    one_picture(stranger)
    theirs = Attachment.objects.get()
    part = {"kind": "file", "name": "pond.png", "media_type": "image/png"}
    address = reverse("attachment", args=[theirs.pk])
    message = {"id": "1", "role": "user", "parts": [part | {"url": f"http://testserver{address}"}]}
    export = {"format": "countersign-chat", "version": 1, "chat": {}, "messages": [message]}
    chat = import_chat(owner, json.dumps(export).encode())
    assert list_texts(chat) == ["[Picture, not imported: pond.png (not in the export)]"]
    address = f"/api/v1/files/{theirs.pk}/content"
    assert list_files(import_chat(owner, webui_with({"type": "image", "url": address}))) == []


# --- where they are stored -----------------------------------------------------------------------
def test_files_are_stored_where_the_settings_say(folder: Path, owner: Member) -> None:
    source = json.loads(json.dumps(samples.CLAUDE))
    data = to_zip(
        {"conversations.json": to_json(gpt_with(ONE), source), "file-AbCd-pond.png": png()}
    )
    run(read(owner, data))
    assert sorted(path.read_bytes() for path in objects(folder)) == sorted(
        [png(), b"Forty herons in March"]
    )
    assert {bytes(each.data) for each in File.objects.all()} == {b""}
    chat = Conversation.objects.get(title="Ponds")
    assert list_files(chat) == [("pond.png", "image/png", png())]


def test_the_same_picture_in_versions_of_a_message_is_stored_once(
    folder: Path, owner: Member
) -> None:
    nodes = [gpt_node(each, None, "user", pictures.pointer(ONE)) for each in "ab"]
    chat = import_chat(owner, gpt_zip(gpt_chat(*nodes), {"file-AbCd.png": png()}))
    assert [each[2] for each in list_files(chat)] == [png(), png()]
    assert len(objects(folder)) == 1


def test_no_file_is_stored_while_a_transaction_is_open(
    folder: Path, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = file_storage.store_bytes
    was_open = []

    def watch(data: bytes) -> StoredObject | None:
        was_open.append(connection.in_atomic_block)
        return store(data)

    monkeypatch.setattr(brought_files, "store_bytes", watch)
    one_picture(owner)
    assert was_open == [False]


def test_a_storage_that_does_not_respond_loses_nothing(folder: Path, owner: Member) -> None:
    folder.rmdir()
    folder.write_bytes(b"no folder")
    files = {"file-AbCd.png": png(), "file-B2.png": png(9)}
    chat = import_chat(owner, gpt_zip(gpt_with(ONE, "file-service://file-B2"), files))
    assert {bytes(each.data) for each in File.objects.all()} == {png(), png(9)}
    assert StoredObject.objects.count() == 1  # the second picture did not wait for it again
    folder.unlink()
    call_command("move_files")
    assert sorted(path.read_bytes() for path in objects(folder)) == sorted([png(), png(9)])
    assert [each[2] for each in list_files(chat)] == [png(), png(9)]


def test_an_object_is_not_old_enough_to_be_deleted_before_its_chat_is_stored(
    folder: Path, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that deletes objects keeps those without a file for this time."""
    monkeypatch.setattr(brought_files, "UNUSED_AFTER", timedelta(seconds=-1))
    chat = one_picture(owner)
    assert objects(folder) == []
    assert list_files(chat) == [("pond.png", "image/png", png())]


def test_the_objects_of_a_chat_that_was_not_stored_are_deleted(
    folder: Path, owner: Member, stranger: Member
) -> None:
    ready = read(owner, gpt_zip(gpt_with(ONE), {"file-AbCd-pond.png": png()}))
    # The database refuses a second file with this name, after the bytes were stored.
    Attachment.objects.create(owner=stranger, name="pond.png", size=1, contents=[])
    with connection.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX one_file_of_a_name ON chatapp_attachment (name)")
    try:
        run(ready)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX one_file_of_a_name")
    assert not Conversation.objects.exists()
    assert len(objects(folder)) == 1
    make_old()
    background_jobs.delete_unused_objects.call()
    assert objects(folder) == [] and not StoredObject.objects.exists()


def test_undo_deletes_the_files_with_the_chats(folder: Path, owner: Member) -> None:
    done = run(read(owner, gpt_zip(gpt_with(ONE), {"file-AbCd.png": png()})))
    assert len(objects(folder)) == 1
    storing.undo(done)
    assert read_bytes(File.objects.get()) == png()  # the chats can be restored for 7 days
    Conversation.objects.update(deleted_at=timezone.now() - timedelta(days=8))
    chat_list.remove_old()
    make_old()
    background_jobs.delete_unused_objects.call()
    assert objects(folder) == []
    assert not StoredObject.objects.exists() and not Attachment.objects.exists()


# --- what the files are afterwards ---------------------------------------------------------------
def test_imported_files_are_untrusted_and_of_their_person_alone(
    owner: Member, owner_client: Client, stranger_client: Client
) -> None:
    chat = one_picture(owner)
    kept = Attachment.objects.get()
    assert (kept.owner, kept.tainted_by, kept.is_picture) == (owner, MARK, True)
    address = reverse("attachment-content", args=[kept.pk, 0])
    answer = owner_client.get(address)
    assert (answer.content, answer["Content-Type"]) == (png(), "image/png")
    assert stranger_client.get(address).status_code == 404
    page = owner_client.get(f"/c/{chat.pk}/").content.decode()
    assert f'src="{address}" alt="pond.png"' in page


async def test_the_model_receives_an_imported_picture(
    runtime: EngineRuntime, owner: Member
) -> None:
    def build() -> Turn:
        return intake.receive(owner, one_picture(owner), text="And now?", model=scripted.MODEL)

    scripted.scenes.append(scripted.text("It froze."))
    turn = await wait_for_rest(runtime, await in_database(build))
    assert turn.state == Turn.State.DONE
    asked = scripted.requests[-1].history[0]
    assert isinstance(asked, UserMessage)
    (media,) = asked.media
    assert (media.name, media.media_type) == ("pond.png", "image/png")


def test_forks_links_exports_and_the_archive_have_the_pictures(
    owner: Member, stranger: Member, owner_client: Client, stranger_client: Client
) -> None:
    chat = one_picture(owner)
    link = share(chat, includes_files=True)
    assert "pond.png" in read_link(open_link(stranger_client, link))
    again = copies.continue_chat(link, stranger)
    assert list_files(again) == [("pond.png", "image/png", png())]
    assert Attachment.objects.get(owner=stranger).tainted_by == MARK
    asked, _call = begin_turn(chat)
    Turn.objects.filter(pk=asked.pk).update(state="done")
    fork = forks.fork_chat(forks.find_answer(owner, chat.pk, asked.answer_id))
    assert list_files(fork)[0] == ("pond.png", "image/png", png())
    exported = owner_client.get(f"/c/{chat.pk}/export", {"format": "json", "tools": "full"})
    data = b"".join(exported) if exported.streaming else exported.content
    assert json.loads(data)["messages"][0]["parts"][0]["name"] == "pond.png"
    target = io.BytesIO()
    write_archive(owner, target, "http://testserver")
    names = zipfile.ZipFile(target).namelist()
    assert len([each for each in names if each.endswith("/pond.png")]) == 2


def test_an_answer_shows_its_picture_and_its_file(owner: Member, owner_client: Client) -> None:
    attached = [
        {"file_id": UUID, "filename": "made.png", "type": "image/png", "filepath": data_uri(png())},
        {
            "file_id": "2",
            "filename": "table.csv",
            "type": "text/csv",
            "filepath": data_uri(b"a,b\n1,2", "text/csv"),
        },
    ]
    nodes = [
        samples.libre_message("l1", samples.NO_PARENT, is_user=True, text="Draw"),
        samples.libre_message("l2", "l1", is_user=False, text="Done", attachments=attached),
    ]
    data = json.dumps(samples.LIBRECHAT | {"messages": nodes}).encode()
    chat = import_chat(owner, data)
    page = owner_client.get(f"/c/{chat.pk}/").content.decode()
    made, table = Attachment.objects.order_by("part__position")
    assert f'<img src="/attachments/{made.pk}/content/0' in page
    assert f'<a class="chip" href="/attachments/{table.pk}/"' in page
    assert f'<img src="/attachments/{table.pk}/' not in page


async def test_the_model_reads_the_file_of_an_answer_as_data(
    runtime: EngineRuntime, owner: Member
) -> None:
    def build() -> Turn:
        file = {"filename": "table.csv", "file_id": "2", "type": "text/csv"}
        attached = [file | {"filepath": data_uri(b"a,b\n1,2", "text/csv")}]
        nodes = [
            samples.libre_message("l1", samples.NO_PARENT, is_user=True, text="Count"),
            samples.libre_message("l2", "l1", is_user=False, text="Done", attachments=attached),
        ]
        chat = import_chat(owner, json.dumps(samples.LIBRECHAT | {"messages": nodes}).encode())
        return intake.receive(owner, chat, text="And now?", model=scripted.MODEL)

    scripted.scenes.append(scripted.text("Three."))
    await wait_for_rest(runtime, await in_database(build))
    history = repr(scripted.requests[-1].history)
    assert "a,b\\n1,2" in history and "no instruction" in history
    assert "You made this picture" not in history


def test_the_preview_says_what_comes_along_and_what_does_not(
    owner: Member, owner_client: Client
) -> None:
    chat = gpt_with(ONE, "file-service://file-gone", "file-service://file-gone2")
    ready = read(owner, gpt_zip(chat, {"file-AbCd.png": png()}))
    page = " ".join(owner_client.get(f"/imports/{ready.pk}/").content.decode().split())
    assert "Pictures and files that come over: 1 picture</p>" in page
    assert "2 pictures are left out: not in the export" in page
    assert ListedChat.objects.get().losses == {"pictures_brought": 1, "pictures_missing": 2}
