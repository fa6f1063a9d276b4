"""What is kept of a service's tools is used again only while nothing about them changed."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from chatapp.models import Member
from chatapp.server.runtime import BoundedCache
from chatapp.tools.catalogue import Catalogue, build_catalogue, load_known_catalogue
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.turns.acts import create_offered_service

pytestmark = pytest.mark.django_db(transaction=True)


def catalogue(person: Member) -> Catalogue:
    return async_to_sync(build_catalogue)(person, None)


@pytest.fixture
def memos(transactional_db: None) -> Service:
    return create_offered_service("memos", "https://nowhere.invalid/mcp", "list", "send")


def setting(**change: Any) -> Callable[[], object]:
    return lambda: ToolSetting.objects.filter(name="send").update(**change)


def service(**change: Any) -> Callable[[], object]:
    return lambda: Service.objects.update(**change)


def added() -> None:
    of = Service.objects.get()
    ToolDefinition.objects.create(service=of, name="new", hash="new", input_schema={})


def changed() -> None:
    ToolDefinition.objects.filter(name="send").update(is_current=False)


def said_otherwise() -> None:
    """What a tool says to programs is not in its hash; a listing stamps the service."""
    ToolDefinition.objects.filter(name="send").update(meta={"ui": {"visibility": ["app"]}})
    Service.objects.update(tools_listed_at=timezone.now())


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        (setting(is_enabled=False), lambda found: "memos_send" not in found),
        (setting(level="high"), lambda found: found["memos_send"].risk.level == "high"),
        (setting(confirmed_hash=""), lambda found: not found["memos_send"].is_confirmed),
        (setting(is_safe_to_repeat=True), lambda found: found["memos_send"].is_safe_to_repeat),
        (service(name="notes"), lambda found: "notes_send" in found),
        (service(url="https://x.invalid"), lambda found: "x" in found["memos_send"].endpoint),
        (service(is_enabled=False), lambda found: not found),
        (added, lambda found: "memos_new" in found),
        (changed, lambda found: "memos_send" not in found),
        (said_otherwise, lambda found: "memos_send" not in found),
    ],
)
def test_each_change_shows_at_the_next_look(
    owner: Member,
    memos: Service,
    change: Callable[[], object],
    shows: Callable[[Catalogue], bool],
) -> None:
    assert not shows(catalogue(owner))
    change()
    assert shows(catalogue(owner))


def test_without_a_change_the_very_same_tools_come_again(owner: Member, memos: Service) -> None:
    first = catalogue(owner)
    assert catalogue(owner)["memos_send"] is first["memos_send"]
    setting(level="high")()
    assert catalogue(owner)["memos_send"] is not first["memos_send"]


def test_what_is_kept_for_one_person_gives_another_nothing(
    owner: Member, stranger: Member, memos: Service
) -> None:
    """The process keeps tools by service; the right to use them is checked each time."""
    service(visibility="private", owner=owner)()
    assert set(catalogue(owner)) == {"memos_list", "memos_send"}
    assert set(catalogue(stranger)) == set()


def test_apps_and_models_have_cache_of_their_own(owner: Member, memos: Service) -> None:
    said_otherwise()
    assert set(catalogue(owner)) == {"memos_list"}
    for_apps = async_to_sync(build_catalogue)(owner, None, audience="app")
    assert set(for_apps) == {"memos_list", "memos_send"}
    assert set(catalogue(owner)) == {"memos_list"}


def test_the_room_is_bounded_and_what_was_used_last_stays() -> None:
    cache: BoundedCache[int] = BoundedCache(limit=4)
    cache.put("a", (1,), [1, 2])
    cache.put("b", (1,), [3, 4])
    assert cache.get("a", (1,)) == [1, 2]
    cache.put("c", (1,), [5])
    assert cache.get("b", (1,)) is None
    assert (cache.get("a", (1,)), cache.get("c", (1,))) == ([1, 2], [5])
    assert cache.get("a", (2,)) is None


def test_one_service_that_is_larger_than_the_room_is_kept_alone() -> None:
    cache: BoundedCache[int] = BoundedCache(limit=1)
    cache.put("a", (), [1])
    cache.put("b", (), [1, 2, 3])
    assert len(cache) == 3


@pytest.mark.parametrize("services", [1, 40])
def test_a_look_at_what_is_kept_costs_one_query_however_much_it_is(
    owner: Member, services: int, django_assert_num_queries: Any
) -> None:
    for number in range(services):
        create_offered_service(f"memos-{number}", "https://nowhere.invalid/mcp", "list", "send")
    first = load_known_catalogue(owner)
    assert len(first) == 2 * services
    with django_assert_num_queries(1):
        assert load_known_catalogue(owner) == first
