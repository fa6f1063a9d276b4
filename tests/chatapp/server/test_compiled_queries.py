"""Queries that are compiled once give what the ORM gives."""

import uuid
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import DateTimeField, Exists, ExpressionWrapper, F, OuterRef, QuerySet
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from chatapp.models import Conversation, Member, Message, Part, Turn, UsageOfDay
from chatapp.server.compiled_queries import compiled, compiled_update, insert_rows

pytestmark = pytest.mark.django_db


@compiled
def find_turn(turn_id: uuid.UUID, model: str, fence: int) -> QuerySet[Turn]:
    parts = Part.objects.filter(message=OuterRef("question"))
    turns = Turn.objects.filter(pk=turn_id, model=model, fence=fence)
    return turns.select_related("conversation__owner", "app_of").annotate(has_parts=Exists(parts))


@compiled
def list_roles(conversation_id: uuid.UUID) -> QuerySet[Message, tuple[uuid.UUID, str]]:
    messages = Message.objects.filter(conversation=conversation_id).order_by("role")
    return messages.values_list("pk", "role")


@compiled
def list_texts(conversation_id: uuid.UUID) -> QuerySet[Part, str]:
    parts = Part.objects.filter(message__conversation=conversation_id)
    return parts.values_list("text", flat=True)


def test_models_come_with_the_related_ones_and_the_annotations(turn: Turn) -> None:
    for _ in range(2):
        with CaptureQueriesContext(connection) as ran:
            found: Any = find_turn.first(turn.pk, turn.model, turn.fence)
            assert found == turn and found.has_parts and found.app_of is None
            assert found.conversation.owner.username == turn.conversation.owner.username
        assert len(ran) == 1
    for field in Turn._meta.concrete_fields:
        now = Turn.objects.get(pk=turn.pk)
        assert getattr(found, field.attname) == getattr(now, field.attname)
    assert not found._state.adding
    assert find_turn.first(uuid.uuid4(), turn.model, turn.fence) is None
    assert find_turn.first(turn.pk, "another:model", turn.fence) is None


def test_rows_of_values_are_those_of_the_orm(turn: Turn) -> None:
    chat = turn.conversation_id
    assert list_roles(chat) == [(turn.answer_id, "assistant"), (turn.question_id, "user")]
    assert list_texts(chat) == list(
        Part.objects.filter(message__conversation=chat).values_list("text", flat=True)
    )


def test_a_value_that_looks_like_a_placeholder_is_only_a_value(turn: Turn) -> None:
    find_turn.first(turn.pk, turn.model, turn.fence)
    assert find_turn.first(turn.pk, "a value of a compiled query 0", 2_100_000_002) is None


def test_an_update_stores_values_and_counts_its_rows(turn: Turn) -> None:
    @compiled_update
    def put_off(
        turn_id: uuid.UUID, model: str, seconds: timedelta
    ) -> tuple[QuerySet[Turn], dict[str, Any]]:
        end = ExpressionWrapper(Now() + seconds, output_field=DateTimeField())
        changes = {"model": model, "fence": F("fence") + 1, "lease_until": end}
        return Turn.objects.filter(pk=turn_id).order_by("created_at"), changes

    assert put_off(turn.pk, "demo:assistant", timedelta(hours=1)) == 1
    assert put_off(uuid.uuid4(), "demo:assistant", timedelta(hours=1)) == 0
    now = Turn.objects.get(pk=turn.pk)
    assert (now.model, now.fence) == ("demo:assistant", turn.fence + 1)
    assert now.lease_until is not None
    left = now.lease_until - Turn.objects.values_list(Now(), flat=True)[0]
    assert timedelta(minutes=59) < left <= timedelta(hours=1)


def test_dates_and_amounts_are_stored_exactly(owner: Member) -> None:
    @compiled_update
    def add(day: date, cost: Decimal) -> tuple[QuerySet[UsageOfDay], dict[str, Any]]:
        return UsageOfDay.objects.filter(day=day), {"cost": F("cost") + cost}

    day = date(2026, 3, 1)
    UsageOfDay.objects.create(person=owner, day=day, model="m")
    assert add(day, Decimal("0.10000001")) == add(day, Decimal("0.2")) == 1
    assert add(date(2026, 3, 2), Decimal(1)) == 0
    assert UsageOfDay.objects.get().cost == Decimal("0.30000001")


def test_rows_are_inserted_together_as_the_orm_would(turn: Turn) -> None:
    chat = Conversation.objects.get(pk=turn.conversation_id)
    messages = [Message(conversation=chat, role=role) for role in ("user", "assistant")]
    parts = [
        Part(message=messages[0], position=place, kind="text", text=f"{place}", opaque={"a": [1]})
        for place in range(2)
    ]
    with CaptureQueriesContext(connection) as ran:
        insert_rows(messages)
        insert_rows(parts)
    assert len(ran) == 2
    assert [Message.objects.get(pk=each.pk) for each in messages] == messages
    assert all(each.created_at is not None and not each._state.adding for each in messages)
    stored = Part.objects.filter(message=messages[0])
    assert [(each.pk, each.text, each.opaque) for each in stored] == [
        (each.pk, each.text, {"a": [1]}) for each in parts
    ]


def test_what_cannot_be_one_statement_with_values_is_refused() -> None:
    @compiled
    def fetch_more(turn_id: uuid.UUID) -> QuerySet[Turn]:
        return Turn.objects.filter(pk=turn_id).prefetch_related("steps")

    @compiled
    def leave_out(turn_id: uuid.UUID, model: str) -> QuerySet[Turn]:
        return Turn.objects.filter(pk=turn_id)

    @compiled
    def name_columns(turn_id: uuid.UUID) -> QuerySet[Turn, Any]:
        return Turn.objects.filter(pk=turn_id).values("model")

    for query in (fetch_more, name_columns):
        with pytest.raises(TypeError):
            query(uuid.uuid4())
    with pytest.raises(TypeError):
        leave_out(uuid.uuid4(), "m")
