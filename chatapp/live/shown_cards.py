"""When the card of a request was first shown to somebody who may answer it. The time to the answer
counts from then."""

import logging
import uuid
from collections.abc import Iterable
from typing import Any

from django.db import OperationalError
from django.db.models import QuerySet
from django.utils import timezone

from chatapp.models import Approval, AttentionCheck, Question, Review, ToolCall
from chatapp.rendering.cards.approval_card import build_row_decision
from chatapp.rendering.page_values import CallFacts, ConversationView, ToolCallView
from chatapp.rendering.pages.inbox import WaitingGroup

from .page_facts import load_row_facts

log = logging.getLogger(__name__)


def mark_shown_in_view(view: ConversationView) -> None:
    """Store that the cards of these messages are shown now."""
    parts = (part for message in view.messages for part in message.parts)
    mark_shown((part.call, part.facts) for part in parts if isinstance(part, ToolCallView))


def mark_shown(cards: Iterable[tuple[ToolCall, CallFacts]]) -> None:
    """Store that the person who asked sees these cards now. Only a card that is new to them costs
    a statement."""
    now = timezone.now()
    approvals, reviews, questions = [], [], []
    for call, facts in cards:
        approval: Approval | None = getattr(call, "approval", None)
        review: Review | None = getattr(call, "review", None)
        if approval is not None and _is_new(approval) and approval.first_at is None:
            approvals.append(approval.pk)
        if review is not None and _is_new(review):
            reviews.append(review.pk)
        if facts.question is not None and _is_new(facts.question):
            questions.append(facts.question.pk)
    for model, new in ((Approval, approvals), (Review, reviews), (Question, questions)):
        if new:
            unseen: QuerySet[Any] = model._default_manager.filter(pk__in=new, shown_at=None)
            _store(unseen, shown_at=now)


def show_rows(piles: Iterable[WaitingGroup]) -> dict[uuid.UUID, CallFacts]:
    """Return what the rows of the inbox need to be decided there, and store that those with buttons
    are shown. Each frame of the list comes here, and only a row that is new is looked at."""
    groups = list(piles)
    facts = load_row_facts(groups)
    shown = [
        each.call
        for group in groups
        for each in group.waiting
        if each.call.pk in facts
        and _is_new(each.call.approval)
        and build_row_decision(each.call, facts[each.call.pk])
    ]
    mark_shown((call, facts[call.pk]) for call in shown if not call._state.adding)
    # The call of an attention check is never stored.
    if checks := [call.pk for call in shown if call._state.adding]:
        unseen = AttentionCheck.objects.filter(pk__in=checks, shown_at=None)
        _store(unseen, shown_at=timezone.now())
    return facts


def mark_shown_to_second(call: ToolCall) -> None:
    """Store that somebody who may give the second signature sees the card now."""
    approval: Approval | None = getattr(call, "approval", None)
    if approval is None or not approval.waits_for_second or approval.second_shown_at:
        return
    unseen = Approval.objects.filter(pk=approval.pk, second_shown_at=None)
    _store(unseen, second_shown_at=timezone.now())


def _is_new(request: Approval | Review | Question) -> bool:
    return request.state == "open" and request.shown_at is None


def _store(unseen: QuerySet[Any], **values: Any) -> None:
    """Store it, unless the database cannot be written: a figure must not keep a card from its
    person."""
    try:
        unseen.update(**values)
    except OperationalError:
        log.warning("When a card was first shown could not be stored.", exc_info=True)
