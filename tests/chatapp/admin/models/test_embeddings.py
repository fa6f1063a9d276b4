"""The admin page *Search by meaning*: choosing a model, testing it, and how far the vectors are."""

import json
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.management.diagnostics.models import check_models
from chatapp.models import (
    EmbeddingProgress,
    EmbeddingSettings,
    LogEntry,
    Member,
    ModelProvider,
    PassageVector,
    ProjectPassage,
    UsageOfDay,
)
from chatapp.projects import files
from tests.chatapp.projects.made import add_file, make_project
from tests.chatapp.providers.accounts import forget_environment, point_at
from tests.conftest import signed_in
from tests.flows.model_server import answering
from tests.wire.script import Answer
from tests.wire.server import WireServer

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = "openai:text-embedding-3-small"
ADDRESS = "/admin/chatapp/embeddingsettings/1/change/"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    forget_environment(monkeypatch)
    with answering(WireServer()) as server:
        point_at(monkeypatch, server.url)
        yield server


@pytest.fixture
def admin(wire: WireServer) -> Member:
    return Member.objects.create_superuser("admin", password="a-long-password")


@pytest.fixture
def client(admin: Member) -> Client:
    return signed_in(admin)


def save(client: Client, model: str = MODEL, **more: str) -> str:
    answer = client.post(ADDRESS, {"model": model, "currency": "USD", **more}, follow=True)
    return answer.content.decode()


def test_a_model_is_chosen_and_the_vectors_begin(client: Client) -> None:
    page = save(client, dimensions="512", price="0.02")
    assert "0 of 0 passages can be found by meaning." in page
    stored = EmbeddingSettings.current()
    assert (stored.model, stored.dimensions, stored.version) == (MODEL, 512, 2)
    assert DBTaskResult.objects.filter(task_path__endswith="make_missing_vectors").exists()
    changed = json.loads(LogEntry.objects.get(kind="model.changed").data)["changed"]
    assert changed["model"]["after"] == MODEL


def test_only_models_that_can_make_vectors_are_saved(client: Client) -> None:
    page = save(client, "anthropic:claude-opus-5")
    assert "Anthropic has no models for embeddings." in page
    assert 'value="anthropic:claude-opus-5"' in page
    assert not EmbeddingSettings.objects.exists()


def test_the_usual_models_of_providers_in_use_are_suggested(client: Client) -> None:
    ModelProvider.objects.create(slug="team", kind="openai-chat", label="Team", key_place="none")
    page = client.get(ADDRESS).content.decode()
    for each in ("openai-chat:bge-m3", "google:gemini-embedding-2", "team:nomic-embed-text"):
        assert f'<option value="{each}">' in page
    assert "anthropic:" not in page


def test_a_test_asks_the_stored_model(client: Client, admin: Member, wire: WireServer) -> None:
    save(client)
    answer = client.post(reverse("admin:chatapp_embeddingsettings_test"), follow=True)
    assert f"The test passed: {MODEL} answered with 256 dimensions in" in answer.content.decode()
    assert len(wire.embedded) == 1
    assert json.loads(LogEntry.objects.get(kind="model.tested").data)["of"] == MODEL
    assert UsageOfDay.objects.get(model=MODEL).person == admin


def test_a_failed_test_shows_the_providers_reason(client: Client, wire: WireServer) -> None:
    save(client)
    wire.play(Answer(status=401, error={"code": "", "message": "Incorrect API key"}))
    answer = client.post(reverse("admin:chatapp_embeddingsettings_test"), follow=True)
    page = answer.content.decode()
    assert "The test failed." in page and "Incorrect API key" in page


def test_switching_off_deletes_the_vectors(client: Client, admin: Member) -> None:
    save(client)
    add_file(admin, make_project(admin))
    passage = ProjectPassage.objects.get()
    PassageVector.objects.create(passage=passage, version=2, signs=b"\1", numbers=b"\0\0\x80?")
    assert "1 of 1 passages can be found by meaning." in client.get(ADDRESS).content.decode()
    save(client, "")
    assert not PassageVector.objects.exists()
    assert "passages can be found" not in client.get(ADDRESS).content.decode()


def test_a_failure_is_shown_with_its_reason(client: Client) -> None:
    save(client)
    now = timezone.now()
    EmbeddingProgress.objects.update_or_create(
        pk=1,
        defaults={"problem": "No answer.", "raw": "Slow down", "failed_at": now, "retry_at": now},
    )
    page = client.get(ADDRESS).content.decode()
    assert "No answer." in page and "<code>Slow down</code>" in page
    [finding] = [each for each in check_models() if "search by meaning" in each.message]
    assert (finding.state, "No answer." in finding.message) == ("doubtful", True)
    save(client, dimensions="256")
    assert "No answer." not in client.get(ADDRESS).content.decode()


def test_a_model_that_is_gone_is_a_finding(admin: Member) -> None:
    EmbeddingSettings(model="gone:model").save()
    assert any("gone:model" in each.message for each in check_models() if each.state == "wrong")


@pytest.mark.parametrize(("right", "status"), [("models", 200), ("policy", 403), ("audit", 403)])
def test_the_right_to_models_is_needed(wire: WireServer, right: str, status: int) -> None:
    limited = Member.objects.create_user(
        "limited", password="a-long-password", is_staff=True, rights=[right]
    )
    client = signed_in(limited)
    EmbeddingSettings(model=MODEL).save()
    assert client.get(ADDRESS).status_code == status
    test = client.post(reverse("admin:chatapp_embeddingsettings_test"), follow=True)
    assert test.status_code == status
    assert len(wire.embedded) == (status == 200)


def test_the_page_of_a_project_says_where_its_text_goes(client: Client, admin: Member) -> None:
    project = make_project(admin)
    address = reverse("project", args=[project.pk])
    assert "their text is sent" not in client.get(address).content.decode()
    EmbeddingSettings(model=MODEL).save()
    page = client.get(address).content.decode()
    assert "To search by meaning, their text is sent to the model server (127.0.0.1)." in page
    assert files.measure_files(project) == (0, 0)
