"""The channel layer brings hints, which may be lost, doubled and reordered without harm; no group
outlives its last viewer."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import environ
import pytest
import pytest_asyncio
from channels.layers import InMemoryChannelLayer, get_channel_layer
from redis.asyncio import Redis

from chatapp.engine.runtime import EngineRuntime
from chatapp.live import hub as live
from chatapp.live.hub import Hub
from chatapp.models import Conversation, Member, Turn
from chatapp.people import signals
from chatapp.rendering import page_values
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.migrated import drop_postgresql, make_postgresql
from tests.scripted import text
from tests.turns.acts import wait_for_rest, wait_until
from tests.turns.tabs import WORDS, assert_as_reloaded, drained, latest, loaded

pytestmark = pytest.mark.django_db(transaction=True)
REDIS = "redis://127.0.0.1:6379/13"
NO_LAYER = "NoneType"
MANY = 60


class LossyInMemoryLayer(InMemoryChannelLayer):
    """Loses a third of what it is given, doubles a third, and shuffles the rest."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fate = random.Random(7)  # noqa: S311  not a secret
        self.held: list[tuple[str, dict[str, Any]]] = []

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.held += [(group, message)] * self.fate.choice([0, 1, 2])
        if len(self.held) > 2:
            sent, self.held = self.held, []
            self.fate.shuffle(sent)
            for one in sent:
                await super().group_send(*one)


class DeafLayer(InMemoryChannelLayer):
    """Takes everything and delivers nothing."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        return


class FailingLayer(InMemoryChannelLayer):
    """Away, for whatever is asked of it."""

    async def new_channel(self, prefix: str = "") -> str:
        raise ConnectionError("nobody answers")

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        raise ConnectionError("nobody answers")


def use_layer(settings: Any, name: str, **config: Any) -> None:
    backend = name if "." in name else f"tests.chatapp.live.test_hints.{name}"
    default = {"default": {"BACKEND": backend, "CONFIG": config}}
    settings.CHANNEL_LAYERS = {} if name == NO_LAYER else default


def layer() -> Any:
    return get_channel_layer()


@pytest.fixture(autouse=True)
def layer_named(settings: Any, request: pytest.FixtureRequest) -> str:
    """A new layer for all hubs of a test."""
    name: str = getattr(request, "param", "channels.layers.InMemoryChannelLayer")
    use_layer(settings, name)
    return name


@pytest.fixture
def without_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that are opened after it never look by themselves."""
    monkeypatch.setattr(live, "POLL_SECONDS", 600.0)


@pytest_asyncio.fixture
async def hub(turn: Turn) -> AsyncIterator[Hub]:
    opened = Hub(current_runtime())
    opened.start()
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def other(runtime: EngineRuntime) -> AsyncIterator[Hub]:
    """The hub of another process: what is written here reaches it by hints and by polling only."""
    opened = Hub(current_runtime())
    opened.start()
    current_runtime().journal_listeners.remove(opened.publish)
    yield opened
    current_runtime().journal_listeners.append(opened.publish)
    await opened.close()


def conversations(owner: Member, many: int = MANY) -> list[uuid.UUID]:
    made = [Conversation(owner=owner, title=f"Chat {n}") for n in range(many)]
    return [each.pk for each in Conversation.objects.bulk_create(made)]


@pytest.fixture
def other_person(owner: Member) -> Member:
    return Member.objects.create_user("other")


async def listening(hub: Hub) -> None:
    await wait_until(lambda: bool(hub._channel))


# --- groups of the channel layer -----------------------------------------------------------
async def test_no_group_is_left_when_the_last_viewer_is_gone(hub: Hub, owner: Member) -> None:
    await listening(hub)
    chats = await in_database(conversations, owner)
    viewers = [(chat, await hub.join(chat, 0)) for chat in [*chats, *chats]]
    assert len(layer().groups) == MANY
    for chat, viewer in viewers[:MANY]:
        hub.leave(chat, viewer)
    await asyncio.gather(*hub._tasks - _for_ever(hub))
    assert len(layer().groups) == MANY
    for chat, viewer in viewers[MANY:]:
        hub.leave(chat, viewer)
    await wait_until(lambda: not layer().groups)
    assert hub._feeds == {}


def _for_ever(hub: Hub) -> set[Any]:
    """The tasks that end with the hub."""
    names = ("_poll", "_receive_hints")
    return {task for task in hub._tasks if task.get_coro().__name__ in names}  # type: ignore[union-attr]


async def test_a_viewer_that_comes_as_the_last_one_leaves_hears_hints(
    hub: Hub, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving the group and joining it again cross each other on their way."""
    await listening(hub)
    discarded = asyncio.Event()
    discard = layer().group_discard

    async def late_discard(group: str, channel: str) -> None:
        await discarded.wait()
        await discard(group, channel)

    monkeypatch.setattr(layer(), "group_discard", late_discard)
    last = await latest(turn.conversation)
    hub.leave(turn.conversation_id, await hub.join(turn.conversation_id, last))
    await asyncio.sleep(0)  # the discard is on its way
    viewer = await hub.join(turn.conversation_id, last)
    discarded.set()
    await asyncio.gather(*hub._tasks - _for_ever(hub))
    assert [set(members) for members in layer().groups.values()] == [{hub._channel}]
    hub.leave(turn.conversation_id, viewer)
    await wait_until(lambda: not layer().groups)


async def subscribed(redis: Redis, prefix: str, many: int) -> None:
    """Until so many channels are subscribed to; fails when it does not come to that."""
    async with asyncio.timeout(60):
        while True:
            if len(await redis.pubsub_channels(f"{prefix}*")) == many:
                return
            await asyncio.sleep(0.02)


@pytest.mark.gate
async def test_redis_keeps_no_subscription_of_a_conversation_that_nobody_watches(
    settings: Any, turn: Turn, owner: Member
) -> None:
    prefix = f"test{uuid.uuid4().hex}"
    backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
    use_layer(settings, backend, hosts=[REDIS], prefix=prefix)
    redis = Redis.from_url(REDIS)
    hub = Hub(current_runtime())
    hub.start()
    try:
        await listening(hub)
        await subscribed(redis, prefix, 1)
        chats = await in_database(conversations, owner)
        viewers = [(chat, await hub.join(chat, 0)) for chat in chats]
        await subscribed(redis, prefix, 1 + MANY)
        for chat, viewer in viewers:
            hub.leave(chat, viewer)
        await subscribed(redis, prefix, 1)
        assert layer().groups == {}
    finally:
        await hub.close()
        await layer().flush()
        await redis.aclose()


# --- hints ---------------------------------------------------------------------------------
async def watched_elsewhere(runtime: EngineRuntime, other: Hub, turn: Turn) -> None:
    """An answer is made here; a tab of the other process ends with the page as it is."""
    scripted.scenes.append(text(*(f"{word} " for word in WORDS.split(" "))))
    tab = await loaded(turn.conversation)
    viewer = await other.join(turn.conversation_id, tab.last)
    await wait_for_rest(runtime, turn)
    await drained(tab, viewer, turn.conversation)
    await assert_as_reloaded(tab, turn.conversation)
    assert "The end." in tab.text(page_values.THREAD_ID)


async def test_hints_alone_bring_another_process_up_to_date(
    without_poll: None, runtime: EngineRuntime, other: Hub, turn: Turn
) -> None:
    await listening(other)
    await watched_elsewhere(runtime, other, turn)


@pytest.fixture
def notify_layer(layer_named: str, settings: Any) -> Iterator[None]:
    """All hubs of a test reach each other through PostgreSQL, wherever the rows are."""
    url = make_postgresql()
    name = "chatapp.server.postgresql.channel_layer.NotifyChannelLayer"
    use_layer(settings, name, database=environ.Env.db_url_config(url))
    yield
    drop_postgresql(url)


@pytest.mark.long
async def test_hints_of_postgresql_alone_bring_another_process_up_to_date(
    notify_layer: None, without_poll: None, runtime: EngineRuntime, other: Hub, turn: Turn
) -> None:
    await listening(other)
    await watched_elsewhere(runtime, other, turn)


@pytest.mark.parametrize(
    "layer_named", ["LossyInMemoryLayer", "DeafLayer", "FailingLayer", NO_LAYER], indirect=True
)
async def test_hints_that_are_lost_doubled_and_reordered_change_nothing(
    layer_named: str, runtime: EngineRuntime, other: Hub, turn: Turn
) -> None:
    """Hints between two hubs get lost, and without Redis there are no hints at all."""
    assert type(other._layer).__name__ == layer_named
    await watched_elsewhere(runtime, other, turn)


@pytest.mark.parametrize(
    "junk", [{"type": "junk"}, {"type": "journal.hint", "conversation": "x", "seq": 1}]
)
async def test_a_hint_that_cannot_be_read_does_not_make_the_hub_deaf(
    without_poll: None,
    monkeypatch: pytest.MonkeyPatch,
    runtime: EngineRuntime,
    other: Hub,
    turn: Turn,
    junk: dict[str, Any],
) -> None:
    monkeypatch.setattr(live, "RETRY_SECONDS", 0.3)
    await listening(other)
    channel = other._channel
    await other.join(turn.conversation_id, 0)
    await layer().send(channel, junk)
    await wait_until(lambda: other._channel not in ("", channel))
    assert not [name for name, members in layer().groups.items() if channel in members]
    await watched_elsewhere(runtime, other, turn)


async def test_a_hub_whose_layer_is_away_tries_again_without_hurry(
    settings: Any, turn: Turn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_layer(settings, "FailingLayer")
    monkeypatch.setattr(live, "RETRY_SECONDS", 0.05)
    hub = Hub(current_runtime())
    hub.start()
    await wait_until(lambda: len(caplog.records) >= 3)
    await hub.close()
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert hub.publish not in current_runtime().journal_listeners


# --- signals to people -----------------------------------------------------------------------
@pytest_asyncio.fixture
async def elsewhere(other: Hub) -> AsyncIterator[Hub]:
    """`other`, which hears of signals by hints and by polling only, too."""
    current_runtime().person_listeners.remove(other.publish_people)
    yield other
    current_runtime().person_listeners.append(other.publish_people)


async def rung_elsewhere(elsewhere: Hub, owner: Member) -> None:
    bell = await elsewhere.join_person(owner.pk)
    await in_database(signals.notify, owner.pk)
    async with asyncio.timeout(30):
        await bell.wait()
    elsewhere.leave_person(owner.pk, bell)


async def test_hints_alone_reach_a_person_at_another_process(
    without_poll: None, runtime: EngineRuntime, elsewhere: Hub, owner: Member, other_person: Member
) -> None:
    await listening(elsewhere)
    strangers = await elsewhere.join_person(other_person.pk)
    await rung_elsewhere(elsewhere, owner)
    assert not strangers.is_set()
    elsewhere.leave_person(other_person.pk, strangers)
    await wait_until(lambda: not layer().groups)


@pytest.mark.parametrize(
    "layer_named", ["LossyInMemoryLayer", "DeafLayer", "FailingLayer", NO_LAYER], indirect=True
)
async def test_polling_alone_reaches_a_person_at_another_process(
    layer_named: str, runtime: EngineRuntime, elsewhere: Hub, owner: Member
) -> None:
    await rung_elsewhere(elsewhere, owner)


async def test_a_poll_without_a_new_signal_rings_for_nobody(
    without_poll: None, hub: Hub, owner: Member
) -> None:
    await in_database(signals.notify, owner.pk)
    bell = await hub.join_person(owner.pk)
    await hub._look()
    assert bell.is_set()
    bell.clear()
    await hub._look()
    assert not bell.is_set()
    hub.leave_person(owner.pk, bell)
