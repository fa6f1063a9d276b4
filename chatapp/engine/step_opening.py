"""Opening a step and building its request in one visit of the database: the visits before a model
call are what a person waits for."""

import logging
import uuid
from dataclasses import dataclass, replace

from django.db import transaction

from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.lease import Lease
from chatapp.models import Turn
from chatapp.server.languages import speaking

from .model_request import PreparedRequest, prepare_at_once
from .next_action import CallModel, next_action
from .steps import OpenStep, create_step, open_step
from .turn_state import TakenTurn, take_turn

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A step whose model call is next. Without a request, a service must be asked first."""

    step: OpenStep
    request: PreparedRequest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunTurn:
    """A turn that this worker took, and its first step if that is next."""

    taken: TakenTurn
    opened: Opened | None = None


def begin_turn(turn_id: uuid.UUID) -> BegunTurn | None:
    """Lease the turn and read it; if it is new, open its first step in the same transaction and
    build its request. Return None if another worker has it or it has nothing to do."""
    with transaction.atomic():
        begun = take_and_open(turn_id)
    return None if begun is None else add_request(begun)


def take_and_open(turn_id: uuid.UUID) -> BegunTurn | None:
    """Do the part of `begin_turn` that writes, inside the caller's transaction."""
    taken = take_turn(turn_id)
    if taken is None:
        return None
    is_new = taken.lease.fence == 1 and taken.state.step is None
    if not (is_new and isinstance(next_action(taken.state), CallModel)):
        return BegunTurn(taken=taken)
    reach(FaultPoint.FIRST_STEP_CHOSEN)
    step = create_step(taken.turn, 1)
    return BegunTurn(taken=taken, opened=Opened(step=step, request=None))


def add_request(begun: BegunTurn) -> BegunTurn:
    """Build the request of the step that was opened, if one was. Called after the commit: it only
    reads."""
    if begun.opened is None:
        return begun
    turn = begun.taken.turn
    try:
        with speaking(turn.conversation.owner.reading_language):
            request = prepare_at_once(turn)
    except Exception:
        # The engine builds the request again, gets the same error and ends the turn with a notice.
        log.exception("The first request of turn %s could not be built", turn.pk)
        return begun
    return replace(begun, opened=replace(begun.opened, request=request))


def begin_step(lease: Lease, turn: Turn, number: int, *, is_new: bool) -> Opened:
    """Open a step of a turn that was read just now. Raises LeaseLost."""
    step = open_step(lease, number, is_new=is_new)
    return Opened(step=step, request=prepare_at_once(turn))
