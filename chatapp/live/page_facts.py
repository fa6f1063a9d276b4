"""What the rows around a call or a turn add to its card or its status, loaded for rendering."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from django.db.models import F, Sum

from chatapp.models import (
    Approval,
    Conversation,
    HousePolicy,
    Part,
    Plan,
    Question,
    RemoteTask,
    Review,
    Step,
    ToolCall,
    Turn,
)
from chatapp.policy.copied_values import find_copied_values
from chatapp.providers.access.model_choice import choose_model
from chatapp.providers.events import ProviderError
from chatapp.rendering.cards import approval_card, paused_cards
from chatapp.rendering.page_values import (
    Batch,
    CallFacts,
    CallNumber,
    Figures,
    Gauge,
    SignInFacts,
    TurnFacts,
    round_costs,
)
from chatapp.rendering.pages import fragments
from mcpconfig.models import ToolDefinition, ToolSetting
from mcpconfig.oauth.sign_in_status import ConnectionState, get_sign_in_status
from mcpconfig.secrets.credentials import has_personal_headers
from mcpconfig.services.sharing import can_sign_in
from mcpconfig.values.acting import Acting

ALL_TOKENS = (
    F("input_tokens") + F("output_tokens") + F("summary_input_tokens") + F("summary_output_tokens")
)


def load_gauge(conversation: Conversation | None) -> Gauge:
    if conversation is None:
        return Gauge()
    steps = Step.objects.filter(turn__conversation=conversation)
    last = steps.filter(input_tokens__gt=0).order_by("started_at").last()
    spent = list(steps.values_list("currency").annotate(cost=Sum("cost"), tokens=Sum(ALL_TOKENS)))
    return Gauge(
        tokens=last.input_tokens + last.output_tokens if last else 0,
        saved_tokens=last.saved_tokens if last else 0,
        context_tokens=_find_context_tokens(conversation) if last else None,
        total_tokens=sum(tokens for _, _, tokens in spent),
        costs=round_costs({currency: cost for currency, cost, _ in spent if cost}),
    )


def _find_context_tokens(conversation: Conversation) -> int | None:
    """Return the context of the chosen model in tokens, if it is known."""
    try:
        return choose_model(conversation.model, conversation.owner).context_tokens
    except ProviderError:
        return None


State = ToolCall.State


def render_call(
    call: ToolCall,
    csrf_token: str = "",
    refusal: str = "",
    *,
    leads_to: paused_cards.SignInLink | None = None,
    typed: paused_cards.RefusedAnswer | None = None,
    changed: approval_card.RefusedValues | None = None,
    picked: bool = False,
) -> str:
    """Return the fragment of a call as its rows are now; see `fragments.render_tool_call`."""
    return fragments.render_tool_call(
        call,
        load_call_facts(call),
        csrf_token,
        refusal,
        leads_to=leads_to,
        typed=typed,
        changed=changed,
        picked=picked,
    )


def load_call_facts(call: ToolCall) -> CallFacts:
    """Read what the card of a call in this state shows beside the call."""
    if call.state == State.AWAITING_APPROVAL and getattr(call, "approval", None) is not None:
        previous = find_previous_call(call)
        return CallFacts(
            previous=previous,
            definition_before=_find_definition_before(call, previous),
            number=_find_number_in_step(call),
            scopes=HousePolicy.current().scopes_for(call),
            names_person=call.service is not None and has_personal_headers(call.service),
            copied=find_copied_values(call),
        )
    if paused_cards.get_open_review(call) is not None:
        return CallFacts()
    if call.state == State.AWAITING_SIGN_IN:
        is_task = RemoteTask.objects.filter(tool_call=call).exists()
        return CallFacts(sign_in=_load_sign_in_facts(call), is_task=is_task)
    if call.state in (State.AWAITING_INPUT, State.SENDING):
        return CallFacts(question=call.questions.filter(state=Question.State.OPEN).last())
    if call.is_core and call.tool_name == "make-plan" and call.state == State.SUCCEEDED:
        return CallFacts(plan=Plan.objects.filter(call=call).first())
    return CallFacts()


def find_previous_call(call: ToolCall) -> ToolCall | None:
    """Return the call of the same tool that was sent last in this chat."""
    sent = ToolCall.objects.filter(
        turn__conversation=call.turn.conversation_id,
        service=call.service_id,
        tool_name=call.tool_name,
        sent_at__isnull=False,
    )
    return sent.exclude(pk=call.pk).order_by("sent_at").last()


def _find_definition_before(call: ToolCall, previous: ToolCall | None) -> ToolDefinition | None:
    """Return the definition that people knew, or None if the tool has not changed since.

    That is the one that an admin confirmed, or else that of the previous call in this chat, or else
    the one that a definition replaced which was first seen after this turn began.
    """
    now = call.definition
    if now is None or call.service is None:
        return None
    known = ToolDefinition.objects.filter(service=call.service, name=call.tool_name)
    setting = ToolSetting.objects.filter(service=call.service, name=call.tool_name).first()
    if setting is not None and setting.confirmed_hash:
        before = known.filter(hash=setting.confirmed_hash).first()
    elif previous is not None and previous.definition_id is not None:
        before = known.filter(pk=previous.definition_id).first()
    elif now.first_seen_at > call.turn.created_at:
        before = known.exclude(pk=now.pk).order_by("first_seen_at").last()
    else:
        before = None
    return None if before == now else before


def _find_number_in_step(call: ToolCall) -> CallNumber | None:
    """The number stays the same while the others are answered. None for a call that was asked
    about alone."""
    asked = ToolCall.objects.filter(turn=call.turn_id, step=call.step, approval__isnull=False)
    ids = list(asked.order_by("position").values_list("pk", flat=True))
    return CallNumber(own=ids.index(call.pk) + 1, of=len(ids)) if len(ids) > 1 else None


def _load_sign_in_facts(call: ToolCall) -> SignInFacts | None:
    service, person = call.service, call.turn.conversation.owner
    if service is None:
        return None
    stands = get_sign_in_status(service, Acting.of(person))
    return SignInFacts(
        is_first=stands.state == ConnectionState.NOT_CONNECTED,
        is_shared=stands.is_shared,
        wanted_scopes=stands.wanted,
        may_connect=can_sign_in(service, person),
    )


def load_note(call: ToolCall) -> str:
    """Return the text that the assistant wrote in the same step before it asked for this call."""
    texts = Part.objects.filter(
        message=call.turn.answer_id, step=call.step, position__lt=call.position, kind=Part.Kind.TEXT
    )
    return "\n\n".join(part.text for part in texts if part.text.strip())


def load_turn_facts(turn: Turn, figures: Figures | None = None) -> TurnFacts:
    """Read what the status of a turn shows. Figures that are not given are counted."""
    if turn.state == Turn.State.WAITING:
        states = frozenset(turn.tool_calls.values_list("state", flat=True))
        asks = turn.tool_calls.filter(state=State.AWAITING_APPROVAL)
        return TurnFacts(
            batch=load_batch(turn),
            call_states=states,
            needs_second=asks.exists() and not asks.filter(approval__first_at=None).exists(),
            has_open_review=turn.tool_calls.filter(review__state=Review.State.OPEN).exists(),
        )
    if turn.state == Turn.State.RUNNING:
        step = turn.steps.order_by("number").last()
        is_calling = step is not None and step.state == Step.State.CALLING
        return TurnFacts(waits_because=step.waits_because if step and is_calling else "")
    if turn.is_live:
        return TurnFacts()
    return TurnFacts(figures=figures or count_figures([turn])[turn.pk])


def load_batch(turn: Turn) -> Batch | None:
    """Return what one form can answer together; None where fewer than two calls of a waiting turn
    need the approval of its person."""
    if turn.state != Turn.State.WAITING:
        return None
    waiting = Approval.objects.filter(
        tool_call__turn=turn, state=Approval.State.OPEN, first_at=None
    ).select_related("tool_call")
    may_run = [approval.may_be_batched for approval in waiting]
    if len(may_run) < 2:
        return None
    return Batch(
        count=len(may_run),
        may_run=sum(may_run),
        alone=len(may_run) - sum(may_run),
        chat=turn.conversation_id,
    )


def count_figures(turns: Iterable[Turn]) -> dict[uuid.UUID, Figures]:
    """Return the figures of each turn by its id, counted in two queries."""
    known = list(turns)
    tokens: Counter[uuid.UUID] = Counter()
    costs: dict[uuid.UUID, dict[str, Decimal]] = defaultdict(dict)
    seconds: dict[uuid.UUID, float] = defaultdict(float)
    steps = Step.objects.filter(turn__in=known)
    for turn_id, written, summarised, began, ended, cost, currency in steps.values_list(
        *("turn_id", "output_tokens", "summary_output_tokens"),
        *("started_at", "finished_at", "cost", "currency"),
    ):
        tokens[turn_id] += written + summarised
        seconds[turn_id] += seconds_between(began, ended)
        if cost:
            costs[turn_id][currency] = costs[turn_id].get(currency, Decimal(0)) + cost
    calls = ToolCall.objects.filter(turn__in=known)
    for turn_id, sent, ended in calls.values_list("turn_id", "sent_at", "finished_at"):
        seconds[turn_id] += seconds_between(sent, ended)
    return {
        turn.pk: Figures(
            output_tokens=tokens[turn.pk],
            seconds=seconds[turn.pk],
            costs=round_costs(costs[turn.pk]),
        )
        for turn in known
    }


def seconds_between(began: datetime | None, ended: datetime | None) -> float:
    """Return 0 for what has not begun or not ended."""
    return (ended - began).total_seconds() if began and ended else 0.0
