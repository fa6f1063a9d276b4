"""Files that a person adds: kept beside the message, sent with it, served back to nobody else."""

import uuid
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from chatapp.conversations.uploads import Upload, keep_file
from chatapp.models import Attachment, File, Member, Turn
from chatapp.people.refused import Refused
from chatapp.server.runtime import Runtime, using_runtime
from tests.chatapp.files.papers import encrypted, pdf
from tests.dom_tree import Element, parse
from tests.peers.reading_room import PNG, SVG, WAV
from tests.turns import rows

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
DRAFT = {"text": "What is\nthis?", "model": rows.MODEL, "chat": ""}
NOTES = ("notes.md", b"# Buy milk")


def upload(client: Client, *files: tuple[str, bytes], **values: Any) -> tuple[int, Element]:
    """Add files by htmx; the fragment that answers."""
    data = {**DRAFT, "files": [SimpleUploadedFile(*each) for each in files], **values}
    answer = client.post("/attach/files", data, headers=HTMX)
    return answer.status_code, parse(answer.content.decode())


def send(client: Client, *files: tuple[str, bytes], htmx: bool = False, **values: Any) -> Any:
    """Send a message with files in the form itself, as a page without JavaScript does."""
    data = {**DRAFT, "files": [SimpleUploadedFile(*each) for each in files], **values}
    return client.post("/c/new/messages", data, headers=HTMX if htmx else {})


def chips(page: Element) -> list[str]:
    return [each.text for each in page.all("label", class_="chip")]


def kept(person: Member, name: str = "dot.png", data: bytes = PNG) -> Attachment:
    return keep_file(person, Upload(name=name, size=len(data), data=data))


# --- adding ----------------------------------------------------------------------------------
def test_files_become_chips_with_name_type_and_size(owner_client: Client, owner: Member) -> None:
    status, page = upload(owner_client, ("dot.png", PNG), ("sums.pdf", pdf("40")), NOTES)
    assert status == 200
    assert [chip.split(" ")[0] for chip in chips(page)] == ["dot.png", "sums.pdf", "notes.md"]
    assert ["PNG" in chips(page)[0], "PDF" in chips(page)[1], "Text" in chips(page)[2]] == [
        True
    ] * 3
    ids = [each["value"] for each in page.all("input", name="attachments")]
    files = Attachment.objects.in_bulk(map(uuid.UUID, ids))
    assert {(file.owner, file.service, file.is_own_file) for file in files.values()} == {
        (owner, None, True)
    }
    assert File.objects.get(attachment__name="sums.pdf").words == "[Page 1]\n40"


def test_the_input_comes_back_empty_for_the_next_files(owner_client: Client) -> None:
    _, page = upload(owner_client, NOTES)
    again = page.one("label", id="composer-files")
    assert again["hx-swap-oob"] == "true"
    assert again.one("input", type="file")["hx-encoding"] == "multipart/form-data"


REFUSED = {
    "empty": (("empty.txt", b""), "empty.txt: the file is empty."),
    "too large": (
        ("big.txt", b"x" * 1_001),
        "big.txt: the file has 1001 bytes. The limit for a file is 1000 byt",
    ),
    "no kind": (("tune.wav", WAV), "tune.wav: unsupported file type."),
    "encoding": (("old.csv", "Привет".encode("cp1251")), "old.csv: not UTF-8 text."),
    "locked": (("safe.pdf", encrypted("x")), "safe.pdf: the file has a password."),
    "no pdf": (("torn.pdf", b"%PDF-1.7 torn"), "torn.pdf: the PDF cannot be read."),
    "disguised": (("photo.png", b"<html>\x00"), "photo.png: unsupported file type."),
}


@pytest.mark.parametrize(("bad", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_bad_file_is_refused_by_name_and_the_others_stay(
    owner_client: Client, settings: Any, bad: tuple[str, bytes], sentence: str
) -> None:
    settings.FILE_MAX_BYTES = 1_000 if "big" in bad[0] else 10_000
    status, page = upload(owner_client, bad, NOTES)
    assert status == 422
    assert sentence in page.text
    assert [chip.split(" ")[0] for chip in chips(page)] == ["notes.md"]
    assert Attachment.objects.get().name == "notes.md"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_text_of_office_programs_is_stored_as_utf8(
    owner_client: Client, owner: Member, encoding: str
) -> None:
    words = "Größe;Preis\r\nMüller;5 €"
    status, page = upload(owner_client, ("prices.csv", words.encode(encoding)))
    assert status == 200
    file = File.objects.select_related("attachment").get()
    assert (bytes(file.data).decode(), file.words) == (words, words)
    assert file.attachment.size == len(words.encode())
    shown = owner_client.get(f"/attachments/{file.attachment_id}/")
    assert "Müller;5 €" in shown.content.decode()


def test_text_that_becomes_too_large_as_utf8_is_refused(owner: Member, settings: Any) -> None:
    settings.FILE_MAX_BYTES = 30
    with pytest.raises(Refused, match="32 bytes"):
        kept(owner, "euro.txt", ("€ " * 8).encode("cp1252"))


def test_no_more_of_a_form_is_kept_than_a_message_may_have(
    owner_client: Client, settings: Any
) -> None:
    settings.MESSAGE_MAX_BYTES = 100
    status, page = upload(owner_client, ("a.txt", b"a" * 60), ("b.txt", b"b" * 60), ("c", b"cc"))
    assert status == 422
    assert "b.txt: the files of this message exceed 100 bytes" in page.text
    assert [len(file.data) for file in File.objects.order_by("attachment__name")] == [60, 2]


def test_a_file_that_is_too_large_takes_no_room_from_the_others(
    owner_client: Client, settings: Any
) -> None:
    settings.FILE_MAX_BYTES, settings.MESSAGE_MAX_BYTES = 80, 100
    _, page = upload(owner_client, ("a.txt", b"a" * 90), ("b.txt", b"b" * 80), ("c.txt", b"c"))
    assert "a.txt: the file has 90 bytes. The limit for a file is 80 bytes." in page.text
    assert [chip.split(" ")[0] for chip in chips(page)] == ["b.txt", "c.txt"]


def test_more_files_than_a_message_takes_are_not_looked_at(
    owner_client: Client, settings: Any
) -> None:
    settings.MESSAGE_MAX_FILES = 2
    _, page = upload(owner_client, *[(f"{n}.txt", b"x") for n in range(4)])
    assert "2" in page.with_class("refused")[0].text
    assert Attachment.objects.count() == 2


def test_all_attachments_together_have_a_limit(owner_client: Client, settings: Any) -> None:
    _, page = upload(owner_client, ("a.txt", b"a" * 60), ("b.txt", b"b" * 60))
    files = [each["value"] for each in page.all("input", name="attachments")]
    settings.MESSAGE_MAX_BYTES = 100
    answer = send(owner_client, attachments=files)
    assert answer.status_code == 422
    assert "100 bytes" in answer.content.decode()
    assert not Turn.objects.exists()


def test_a_name_hides_and_turns_around_nothing(owner: Member) -> None:
    assert kept(owner, "bill\u202egpj.exe\x00\n.png").name == "billgpj.exe.png"
    assert kept(owner, "\u200b").name == "Unnamed file"


def test_old_drafts_make_room_by_weight(owner: Member, stranger: Member, settings: Any) -> None:
    settings.DRAFTS_MAX_BYTES = 100
    theirs, first, second = kept(stranger), kept(owner), kept(owner)
    newest = kept(owner, "n.txt", b"x" * 60)
    assert set(Attachment.objects.all()) == {theirs, second, newest}
    assert not File.objects.filter(pk=first.pk).exists()


# --- sending ---------------------------------------------------------------------------------
def test_without_javascript_the_files_go_with_the_form(owner_client: Client) -> None:
    lines = DRAFT["text"].replace("\n", "\r\n")
    answer = send(owner_client, ("dot.png", PNG), NOTES, text=lines)
    turn = Turn.objects.get()
    assert answer["Location"] == f"/c/{turn.conversation_id}/"
    assert turn.question.parts.get(kind="text").text == DRAFT["text"]
    names = [part.attachment.name for part in turn.question.parts.filter(kind="file")]
    assert names == ["dot.png", "notes.md"]


def test_without_javascript_a_bad_file_loses_nothing(owner_client: Client) -> None:
    answer = send(owner_client, ("tune.wav", WAV), NOTES)
    page = parse(answer.content.decode())
    assert answer.status_code == 422
    assert "tune.wav" in page.with_class("refused")[0].text
    form = page.one("form", id="composer")
    assert form.fields()["text"] == DRAFT["text"]
    assert [chip.split(" ")[0] for chip in chips(page)] == ["notes.md"]
    assert not Turn.objects.exists()


def test_with_htmx_files_in_the_form_are_kept_when_the_message_is_refused(
    owner_client: Client,
) -> None:
    answer = send(owner_client, NOTES, htmx=True, text=" ")
    page = parse(answer.content.decode())
    assert answer.status_code == 422
    assert page.with_class("refused")
    assert [chip.split(" ")[0] for chip in chips(page)] == ["notes.md"]


def test_the_way_to_the_services_takes_the_files_along(owner_client: Client) -> None:
    rows.service()
    data = {**DRAFT, "files": [SimpleUploadedFile(*NOTES), SimpleUploadedFile("x.wav", WAV)]}
    page = parse(owner_client.post("/attach/", data).content.decode())
    file = Attachment.objects.get()
    assert "x.wav" in page.one(role="alert").text
    forms = [each for each in page.all("form") if each.all("input", name="text")]
    assert forms
    for form in forms:
        assert form.fields()["attachments"] == str(file.pk)


def test_a_person_adds_files_so_often_a_minute(owner_client: Client, settings: Any) -> None:
    settings.UPLOADS_PER_MINUTE = 2
    with using_runtime(Runtime()):
        assert upload(owner_client, NOTES)[0] == upload(owner_client, NOTES)[0] == 200
        status, page = upload(owner_client, NOTES)
        assert (status, chips(page)) == (429, [])
        assert "You added too many files within a minute. Try again in" in page.text
        answer = send(owner_client, NOTES)
        assert (answer.status_code, int(answer["Retry-After"]) > 0) == (429, True)
        assert DRAFT["text"] in answer.content.decode()
        # A message without files is no upload.
        assert send(owner_client).status_code == 302


def test_a_draft_of_somebody_else_is_not_sent(owner: Member, stranger_client: Client) -> None:
    file = kept(owner)
    answer = send(stranger_client, attachments=[file.pk])
    assert answer.status_code == 422
    file.refresh_from_db()
    assert file.part is None


# --- serving back ----------------------------------------------------------------------------
def test_a_picture_is_shown_and_all_else_is_saved_under_its_name(
    owner: Member, owner_client: Client
) -> None:
    files = [
        ("dot.png", PNG),
        ("Sümme.pdf", pdf("40")),
        ("page.html", b"<script>alert(1)</script>"),
    ]
    answers = {}
    for name, data in files:
        answers[name] = owner_client.get(f"/attachments/{kept(owner, name, data).pk}/content/0")
        assert answers[name].content == data
        assert answers[name]["X-Content-Type-Options"] == "nosniff"
        policy = answers[name]["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "sandbox" in policy
    assert answers["dot.png"]["Content-Type"] == "image/png"
    assert "Content-Disposition" not in answers["dot.png"]
    for name in ("Sümme.pdf", "page.html"):
        assert answers[name]["Content-Type"] == "application/octet-stream"
        assert answers[name]["Content-Disposition"].startswith("attachment; filename")
    assert "S%C3%BCmme.pdf" in answers["Sümme.pdf"]["Content-Disposition"]


@pytest.mark.parametrize("path", ["", "content/0", "content/1"])
def test_nobody_else_gets_a_file(owner: Member, stranger_client: Client, path: str) -> None:
    file = kept(owner)
    assert stranger_client.get(f"/attachments/{file.pk}/{path}").status_code == 404
    assert Client().get(f"/attachments/{file.pk}/{path}")["Location"].startswith("/sign-in/")


def test_the_page_of_a_file_shows_its_words_as_words(owner: Member, owner_client: Client) -> None:
    page = parse(owner_client.get(f"/attachments/{kept(owner, 'x.svg', SVG).pk}/").content.decode())
    assert "<script>alert(1)</script>" in page.one("pre").text
    assert page.one("a", download="")["href"].endswith("/content/0?save")


def test_a_conversation_shows_pictures_and_names_the_other_files(
    owner: Member, owner_client: Client
) -> None:
    send(owner_client, ("dot.png", PNG), NOTES)
    page = parse(owner_client.get(f"/c/{Turn.objects.get().conversation_id}/").content.decode())
    picture = page.one("a", class_="picture").one("img")
    assert picture["alt"] == "dot.png"
    assert page.one("a", class_="chip").text.startswith("notes.md")
