"""The pages that import chats: a file is sent, chats are chosen, imported and taken back."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from chatapp.imports import jobs
from chatapp.models import ChatImport, Conversation, ImportPiece, Member
from chatapp.views.chat import imports
from tests.chatapp.imports.acts import read
from tests.chatapp.imports.samples import CHATGPT, CLAUDE, gpt_chat, gpt_node, to_json, to_zip
from tests.dom_tree import Element, parse

pytestmark = pytest.mark.django_db


def send(client: Client, data: bytes, name: str = "export.zip") -> Any:
    return client.post("/imports/", {"file": SimpleUploadedFile(name, data)})


def load(client: Client, path: str) -> Element:
    return parse(client.get(path).content.decode())


def test_a_file_is_sent_read_chosen_from_imported_and_taken_back(
    owner: Member, owner_client: Client
) -> None:
    sent = send(owner_client, to_zip({"conversations.json": to_json(CHATGPT, CLAUDE)}))
    begun = ChatImport.objects.get()
    path = f"/imports/{begun.pk}/"
    assert (sent.status_code, sent["Location"]) == (302, path)
    assert "The file is being read" in load(owner_client, path).text
    jobs.read_file.func(str(begun.pk))
    page = load(owner_client, path)
    assert "2 chats from ChatGPT" in page.text
    assert "2 tool calls become text and cannot run again" in page.text
    assert "2 pictures are left out" in page.text
    first, second = page.all("input", type="checkbox", name="chat")
    assert "checked" in first and "checked" in second
    numbers = [each["value"] for each in page.all("input", name="shown")]
    answer = owner_client.post(path, {"do": "import", "shown": numbers, "chat": [numbers[0]]})
    assert (answer.status_code, answer["Location"]) == (302, path)
    assert "Chats are being imported from ChatGPT" in load(owner_client, path).text
    jobs.import_selected.func(str(begun.pk))
    assert "1 chat was imported from ChatGPT" in load(owner_client, path).text
    assert Conversation.objects.count() == 1
    assert owner_client.post(f"{path}undo").status_code == 302
    assert "The import was undone" in load(owner_client, path).text
    assert not Conversation.filter_owned(owner).exists()


def test_the_list_of_chats_and_the_palette_lead_to_the_page(owner_client: Client) -> None:
    for path in ("/search/", "/palette/?q=import"):
        assert "/imports/" in [each["href"] for each in load(owner_client, path).all("a")]


def test_a_file_without_the_token_of_the_form_is_refused(owner: Member) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert send(client, to_json(CHATGPT)).status_code == 403
    assert not ChatImport.objects.exists()


def test_a_file_over_the_limit_is_not_kept(owner_client: Client, settings: Any) -> None:
    settings.IMPORT_MAX_BYTES = 1_000
    refused = send(owner_client, b"x" * 200_000)
    assert refused.status_code == 422
    assert (
        "This file has 195.3 KB. The limit is 1000 bytes." in parse(refused.content.decode()).text
    )
    assert not ImportPiece.objects.exists() and not ChatImport.objects.exists()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({}, "Choose a file first."),
        ({"file": SimpleUploadedFile("empty.json", b"")}, "This file is empty."),
    ],
)
def test_a_form_without_a_file_says_so(
    owner_client: Client, form: dict[str, Any], words: str
) -> None:
    refused = owner_client.post("/imports/", form)
    assert refused.status_code == 422
    assert words in refused.content.decode()


def test_a_second_file_waits_for_the_first(owner: Member, owner_client: Client) -> None:
    ready = read(owner, to_json(CHATGPT))
    refused = send(owner_client, to_json(CLAUDE))
    assert refused.status_code == 409
    assert "Another import is open." in refused.content.decode()
    assert owner_client.post(f"/imports/{ready.pk}/discard").status_code == 302
    assert not ChatImport.objects.exists()


def test_nothing_selected_says_so_and_keeps_the_page(owner: Member, owner_client: Client) -> None:
    ready = read(owner, to_json(CHATGPT))
    refused = owner_client.post(f"/imports/{ready.pk}/", {"do": "import", "shown": ["0"]})
    assert refused.status_code == 422
    assert "Select at least one chat." in refused.content.decode()


def test_the_choice_of_each_page_is_kept(
    owner: Member, owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "CHATS_ON_A_PAGE", 2)
    chats = [
        gpt_chat(gpt_node("a", None, "user", "Hi"), id=each, conversation_id=each)
        for each in ("1", "2", "3")
    ]
    ready = read(owner, to_json(*chats))
    path = f"/imports/{ready.pk}/"
    moved = owner_client.post(path, {"do": "page-2", "shown": ["0", "1"], "chat": ["1"]})
    assert moved["Location"] == f"{path}?page=2"
    page = load(owner_client, moved["Location"])
    assert "2 of 3 selected on all pages" in page.text
    assert [each["value"] for each in page.all("input", name="shown")] == ["2"]
    owner_client.post(path, {"do": "none", "shown": ["2"], "chat": ["2"], "page": "2"})
    assert not ready.chats.filter(is_selected=True).exists()
    owner_client.post(path, {"do": "all", "page": "2"})
    assert ready.chats.filter(is_selected=True).count() == 3


def test_a_running_import_asks_again_for_its_part_of_the_page(
    owner: Member, owner_client: Client
) -> None:
    ready = read(owner, to_json(CHATGPT))
    ChatImport.objects.update(state="importing", total=1)
    answer = owner_client.get(f"/imports/{ready.pk}/", headers={"HX-Request": "true"})
    part = parse(answer.content.decode())
    (state,) = part.all("div", id="import-state")
    assert (state["hx-get"], state["hx-trigger"]) == (f"/imports/{ready.pk}/", "every 1s")
    assert not part.all("main")
    refused = owner_client.post(f"/imports/{ready.pk}/discard")
    assert refused.status_code == 409
