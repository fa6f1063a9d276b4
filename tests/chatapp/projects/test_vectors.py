"""The search by meaning: which vectors are made, for whom, what is found by them, and what happens
if the provider fails."""

import math
import random
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from chatapp.models import (
    Allowance,
    EmbeddingProgress,
    EmbeddingSettings,
    Member,
    ModelProvider,
    PassageVector,
    Project,
    ProjectFile,
    ProjectPassage,
    UsageOfDay,
)
from chatapp.models.projects import passage_vectors
from chatapp.models.projects.passage_vectors import find_closest, pack_numbers, pack_signs
from chatapp.projects import files, vectors
from chatapp.providers.access.embeddings import find_embedder
from chatapp.providers.events import ProviderError
from chatapp.tools.core.search_files import fuse_ranks
from tests.chatapp.providers.accounts import forget_environment, point_at
from tests.flows.model_server import answering
from tests.wire.embeddings import REFUSED, make_vector
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .made import add_file, add_member, make_project
from .test_search_files import found_texts, search

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = "openai:text-embedding-3-small"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    forget_environment(monkeypatch)
    with answering(WireServer()) as server:
        point_at(monkeypatch, server.url)
        yield server


@pytest.fixture
def project(owner: Member) -> Project:
    return make_project(owner)


@pytest.fixture
def chosen(wire: WireServer) -> EmbeddingSettings:
    return choose(MODEL)


def choose(model: str = MODEL, **more: Any) -> EmbeddingSettings:
    settings = EmbeddingSettings.current()
    settings.model = model
    for name, value in more.items():
        setattr(settings, name, value)
    settings.save()
    return settings


def make_missing() -> None:
    async_to_sync(vectors.make_missing)()


def read_texts(wire: WireServer) -> list[str]:
    return [text for request in wire.embedded for text in request.body["input"]]


def read_progress() -> EmbeddingProgress:
    return EmbeddingProgress.objects.get(pk=1)


# --- what is found -------------------------------------------------------------------------------
def test_a_synonym_is_found_by_its_meaning(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    add_file(owner, project, "rest.txt", "The kitchen is cleaned at noon.")
    before = search(owner, project, "cars")
    assert (before["found"], before["searched_by"]) == ([], "words and meaning")
    make_missing()
    after = search(owner, project, "cars")
    assert after["found"][0]["text"] == "Each automobile has a log book."
    assert after["searched_by"] == "words and meaning"


def test_a_passage_found_by_both_comes_first(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project, "a.txt", "Cars: see the yard.")
    add_file(owner, project, "b.txt", "Each automobile has a log book.")
    add_file(owner, project, "c.txt", "The kitchen is cleaned at noon.")
    make_missing()
    texts = found_texts(owner, project, "cars")
    assert texts[:2] == ["Cars: see the yard.", "Each automobile has a log book."]


def test_without_a_model_files_are_searched_by_words(
    owner: Member, project: Project, wire: WireServer
) -> None:
    add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    assert not vectors.has_missing()
    make_missing()
    result = search(owner, project, "automobile")
    assert (len(result["found"]), result["searched_by"]) == (1, "words")
    assert wire.embedded == []


def test_only_files_of_the_project_are_found(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    other = make_project(owner, "Other")
    add_file(owner, other, "fleet.txt", "Each automobile has a log book.")
    mine = add_file(owner, project, "mine.txt", "Vehicles are washed.")
    add_file(owner, project, "more.txt", "A car is blue.")
    make_missing()
    assert set(found_texts(owner, project, "cars")) == {"Vehicles are washed.", "A car is blue."}
    assert found_texts(owner, project, "cars", file="mine.txt") == ["Vehicles are washed."]
    assert find_closest(project.pk, make_vector("car"), chosen.version, 5, mine.pk) == [
        mine.passages.get().pk
    ]


def test_passages_of_others_still_count_as_untrusted(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    ada = Member.objects.create_user("ada")
    add_member(project, ada, "editor")
    add_file(ada, Project.of(ada, project.pk), "fleet.txt", "Each automobile has a log book.")
    make_missing()
    assert search(owner, project, "cars")["tainted_by"] == "project file added by ada"


def test_the_search_goes_on_by_words_if_the_provider_fails(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    make_missing()
    wire.play(Answer(status=503, error={"code": "", "message": "No."}))
    result = search(owner, project, "automobile")
    assert (len(result["found"]), result["searched_by"]) == (1, "words")


def test_the_search_goes_on_by_words_if_the_model_cannot_be_asked(
    owner: Member, project: Project, wire: WireServer
) -> None:
    choose("gone:model")
    add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    assert search(owner, project, "automobile")["searched_by"] == "words"


def test_ranks_are_fused() -> None:
    assert fuse_ranks([1, 2, 3], [3, 4]) == [3, 1, 2, 4]
    assert fuse_ranks([], [7]) == [7]


def test_the_exact_order_counts_among_the_closest(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    """The signs of all these vectors are the same, so only their numbers tell them apart."""
    file = add_file(owner, project, "a.txt", "one")
    passages = ProjectPassage.objects.bulk_create(
        ProjectPassage(file=file, number=number, text=str(number)) for number in range(2, 40)
    )
    rng = random.Random(7)  # noqa: S311
    made = {each.pk: [rng.uniform(0.01, 1) for _ in range(64)] for each in passages}
    store(made, chosen.version)
    asked = [rng.uniform(0.01, 1) for _ in range(64)]
    expected = sorted(made, key=lambda pk: -compare(asked, made[pk]))[:5]
    assert find_closest(project.pk, asked, chosen.version, 5) == expected


def test_the_signs_find_what_is_close(
    owner: Member,
    project: Project,
    chosen: EmbeddingSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten of four hundred vectors are close to the search, and only forty are compared exactly."""
    monkeypatch.setattr(passage_vectors, "CANDIDATES", 40)
    file = add_file(owner, project, "a.txt", "one")
    passages = ProjectPassage.objects.bulk_create(
        ProjectPassage(file=file, number=number, text=str(number)) for number in range(2, 402)
    )
    rng = random.Random(8)  # noqa: S311
    asked = [rng.gauss(0, 1) for _ in range(256)]
    made = {each.pk: [rng.gauss(0, 1) for _ in range(256)] for each in passages}
    close = [each.pk for each in passages[100:110]]
    for pk in close:
        made[pk] = [number + rng.gauss(0, 1) for number in asked]
    store(made, chosen.version)
    expected = sorted(close, key=lambda pk: -compare(asked, made[pk]))
    assert find_closest(project.pk, asked, chosen.version, 10) == expected


def store(made: dict[int, list[float]], version: int) -> None:
    PassageVector.objects.bulk_create(
        PassageVector(
            passage_id=pk, version=version, signs=pack_signs(each), numbers=pack_numbers(each)
        )
        for pk, each in made.items()
    )


def compare(one: list[float], other: list[float]) -> float:
    length = math.hypot(*other)
    return sum(map(float.__mul__, one, other)) / length


# --- what is made --------------------------------------------------------------------------------
def test_each_passage_is_sent_once_with_its_file_and_place(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    file = add_file(owner, project)
    assert vectors.has_missing()
    make_missing()
    make_missing()
    assert read_texts(wire) == [
        "runbook.md · Gateway\n# Gateway\n\nThe gateway gives up after 30 seconds. Restart it with "
        "care.\n\n# Database\n\nThe database is vacuumed at night."
    ]
    assert not vectors.has_missing()
    file.refresh_from_db()
    assert file.vectors_version == chosen.version
    assert vectors.measure_coverage() == vectors.Coverage(passages=1, made=1, refused=0)


def test_a_long_file_is_sent_in_batches(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(
        owner, project, "long.txt", "\n\n".join(f"Part {n}. " + "word " * 250 for n in range(90))
    )
    make_missing()
    sizes = [len(request.body["input"]) for request in wire.embedded]
    assert sizes == [64, sum(sizes) - 64]
    assert PassageVector.objects.count() == ProjectPassage.objects.count() == sum(sizes)


def test_another_model_begins_anew_and_old_vectors_are_not_compared(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    make_missing()
    later = choose(dimensions=128)
    assert later.version == chosen.version + 1
    assert found_texts(owner, project, "cars") == []
    make_missing()
    assert found_texts(owner, project, "cars") == ["Each automobile has a log book."]
    assert len(PassageVector.objects.get().numbers) == 4 * 128


def test_a_price_changes_no_vector(chosen: EmbeddingSettings) -> None:
    assert choose(price=Decimal("0.02")).version == chosen.version


def test_a_file_that_is_read_again_gets_new_vectors(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    file = add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    make_missing()
    ProjectFile.objects.filter(pk=file.pk).update(state=ProjectFile.State.READING)
    files.read_file(file.pk)
    assert vectors.has_missing()
    make_missing()
    assert found_texts(owner, project, "cars") == ["Each automobile has a log book."]


def test_deleted_projects_are_left_out(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(owner, project)
    Project.objects.update(deleted_at=timezone.now())
    assert not vectors.has_missing()
    make_missing()
    assert wire.embedded == []


def test_archived_projects_are_left_out(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(owner, project)
    Project.objects.update(archived_at=timezone.now())
    assert not vectors.has_missing()
    make_missing()
    assert wire.embedded == []


def test_switching_off_removes_the_vectors(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project)
    make_missing()
    choose("")
    vectors.remove_all()
    assert (PassageVector.objects.count(), vectors.has_missing()) == (0, False)
    choose(MODEL)
    assert vectors.has_missing()


def test_vectors_of_settings_that_changed_meanwhile_are_not_stored(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project)
    embedder = find_embedder()
    assert embedder is not None
    batch = vectors._find_batch(embedder.version, set())
    assert batch is not None
    choose(dimensions=128)
    assert not vectors._store(embedder, batch, [tuple(make_vector("x"))])
    assert not PassageVector.objects.exists()


# --- one task at a time, and failures ------------------------------------------------------------
def test_one_task_at_a_time_makes_vectors(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(owner, project)
    assert vectors._claim()
    assert not vectors._claim()
    assert not vectors.has_missing()
    make_missing()
    assert wire.embedded == []
    ended = timezone.now() - timedelta(seconds=1)
    EmbeddingProgress.objects.update(claimed_until=ended)
    make_missing()
    assert len(wire.embedded) == 1
    assert read_progress().claimed_until is None


def test_a_failure_is_stored_and_tried_again_later(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    add_file(owner, project)
    wire.play(Answer(status=429, error={"code": "", "message": "Slow down"}))
    make_missing()
    progress = read_progress()
    assert progress.problem.startswith("The model server (127.0.0.1)")
    assert (progress.raw, progress.failures) == ("Slow down", 1)
    assert progress.retry_at is not None
    assert not vectors.has_missing()
    make_missing()
    assert len(wire.embedded) == 1
    EmbeddingProgress.objects.update(retry_at=timezone.now() - timedelta(seconds=1))
    assert vectors.has_missing()
    make_missing()
    progress = read_progress()
    assert (progress.problem, progress.raw, progress.failures) == ("", "", 0)
    assert PassageVector.objects.count() == 1


def test_one_refused_text_does_not_hold_up_the_others(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    text = "\n\n".join(("word " * 250, f"{REFUSED} " * 100, "other " * 200))
    add_file(owner, project, "long.txt", text)
    make_missing()
    coverage = vectors.measure_coverage()
    assert coverage.refused >= 1
    assert coverage.made + coverage.refused == coverage.passages > 1
    assert not vectors.has_missing()
    assert read_progress().problem == ""
    assert found_texts(owner, project, REFUSED)


def test_a_refusal_of_every_text_is_a_failure(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project, "long.txt", f"{REFUSED} " * 300)
    make_missing()
    assert not PassageVector.objects.exists()
    assert read_progress().raw == "The input was refused."


def test_a_file_that_the_provider_refuses_does_not_hold_up_later_files(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project, "first.txt", "A first text, so that the model is known to work.")
    make_missing()
    add_file(owner, project, "refused.txt", REFUSED)
    add_file(owner, project, "fleet.txt", "Each automobile has a log book.")
    make_missing()
    assert found_texts(owner, project, "cars")[0] == "Each automobile has a log book."
    assert vectors.measure_coverage() == vectors.Coverage(passages=3, made=2, refused=1)
    assert read_progress().problem == ""


def test_a_task_that_sends_texts_alone_stops_at_its_deadline(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project, "long.txt", "\n\n".join(["word " * 250] * 5 + [REFUSED * 100]))
    async_to_sync(vectors.make_missing)(seconds=0.001)
    made = PassageVector.objects.count()
    assert 0 <= made < ProjectPassage.objects.count()
    make_missing()
    assert not vectors.has_missing()


def test_a_late_task_does_not_release_the_claim_of_another(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    late = vectors._claim()
    assert late is not None
    EmbeddingProgress.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert vectors._claim() is not None
    vectors._release(late)
    assert vectors._claim() is None


def test_a_failure_of_the_model_before_does_not_delay_the_present_one(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    add_file(owner, project)
    assert vectors._claim() is not None
    before = find_embedder()
    choose(dimensions=128)
    vectors._store_failure(ProviderError(kind="server", message="No."), before)
    assert (read_progress().problem, read_progress().retry_at) == ("", None)


# --- who pays ------------------------------------------------------------------------------------
def test_tokens_count_for_whoever_added_the_file_and_whoever_searches(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    choose(price=Decimal(1_000), currency="EUR")
    ada = Member.objects.create_user("ada")
    add_member(project, ada, "editor")
    add_file(ada, Project.of(ada, project.pk), "fleet.txt", "Each automobile has a log book.")
    make_missing()
    search(owner, project, "blue cars")
    used = {each.person: each for each in UsageOfDay.objects.filter(model=MODEL)}
    assert used[ada].input_tokens == 7
    assert (used[owner].input_tokens, used[owner].cost) == (2, Decimal("0.002"))
    assert used[owner].currency == "EUR"


def test_the_owner_pays_for_files_of_somebody_who_left(
    owner: Member, project: Project, chosen: EmbeddingSettings
) -> None:
    ada = Member.objects.create_user("ada")
    add_member(project, ada, "editor")
    add_file(ada, Project.of(ada, project.pk), "fleet.txt", "Each automobile has a log book.")
    project.members.all().delete()
    make_missing()
    assert [each.person for each in UsageOfDay.objects.filter(model=MODEL)] == [owner]


def test_files_of_somebody_whose_allowance_is_used_up_wait(
    owner: Member, project: Project, chosen: EmbeddingSettings, wire: WireServer
) -> None:
    ada = Member.objects.create_user("ada")
    add_member(project, ada, "editor")
    add_file(ada, Project.of(ada, project.pk), "ada.txt", "Of Ada.")
    add_file(owner, project, "mine.txt", "Of the owner.")
    Allowance.objects.create(person=ada, tokens=1)
    UsageOfDay.objects.create(
        person=ada, day=timezone.now().date(), model="any:model", input_tokens=5
    )
    make_missing()
    assert read_texts(wire) == ["mine.txt\nOf the owner."]


# --- the model of the settings -------------------------------------------------------------------
@pytest.mark.parametrize("model", ["anthropic:claude", "nobody:model", "openai:", "demo:assistant"])
def test_a_model_that_cannot_make_vectors_is_refused(wire: WireServer, model: str) -> None:
    choose(model)
    with pytest.raises(ProviderError):
        find_embedder()


def test_a_row_of_an_admin_is_asked_with_its_key(
    owner: Member, project: Project, wire: WireServer
) -> None:
    row = ModelProvider.objects.create(
        slug="team", kind="openai-chat", label="Team", base_url=wire.url
    )
    row.set_key("row-key-0123456789")
    choose("team:nomic-embed-text")
    add_file(owner, project)
    make_missing()
    assert wire.embedded[0].headers["authorization"] == "Bearer row-key-0123456789"
    ModelProvider.objects.update(is_enabled=False)
    with pytest.raises(ProviderError):
        find_embedder()
