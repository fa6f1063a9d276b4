"""What the rows around a call or a turn add to its card or its status, loaded for rendering."""

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from chatapp.models import (
    AnswerFeedback,
    Approval,
    Conversation,
    HousePolicy,
    Message,
    Part,
    Plan,
    Question,
    QueuedMessage,
    RemoteTask,
    Review,
    Step,
    ToolCall,
    Turn,
)
from chatapp.policy.copied_values import find_copied_values
from chatapp.providers.access.model_choice import OfferedModel, choose_model
from chatapp.providers.events import ProviderError
from chatapp.rendering.cards import approval_card, paused_cards
from chatapp.rendering.cards.approval_card import is_plain_for_row
from chatapp.rendering.page_values import (
    Batch,
    CallFacts,
    CallNumber,
    Feedback,
    Figures,
    Gauge,
    SignInFacts,
    TurnFacts,
    Version,
    round_costs,
)
from chatapp.rendering.pages import fragments
from chatapp.rendering.pages.inbox import WaitingGroup
from chatapp.server.compiled_queries import compiled
from chatapp.server.runtime import current_runtime
from mcpconfig.models import ToolDefinition, ToolSetting
from mcpconfig.oauth.sign_in_status import ConnectionState, get_sign_in_status
from mcpconfig.secrets.credentials import has_personal_headers
from mcpconfig.services.sharing import can_sign_in
from mcpconfig.values.acting import Acting

KEPT_SECONDS = 60
ALL_TOKENS = (
    F("input_tokens") + F("output_tokens") + F("summary_input_tokens") + F("summary_output_tokens")
)


def load_gauge(conversation: Conversation | None, model: OfferedModel | None = None) -> Gauge:
    """Read the gauge. The chosen model is looked up if it is not given."""
    if conversation is None:
        return Gauge()
    spent = _sum_spent(conversation.pk)
    size, saved = spent[0][3:] if spent else (None, None)
    context_tokens = None
    if size:
        context_tokens = model.context_tokens if model else _find_context_tokens(conversation)
    return Gauge(
        tokens=size or 0,
        saved_tokens=saved or 0,
        context_tokens=context_tokens,
        total_tokens=sum(tokens for _, _, tokens, *_ in spent),
        costs=round_costs({currency: cost for currency, cost, *_ in spent if cost}),
    )


@compiled
def _sum_spent(
    conversation_id: uuid.UUID,
) -> QuerySet[Step, tuple[str, Decimal | None, int, int | None, int | None]]:
    """Return for each currency: cost, tokens, and the size and the saved tokens of the last call
    on the branch that is shown."""
    steps = Step.objects.filter(turn__conversation=conversation_id).order_by()
    shown = steps.filter(input_tokens__gt=0, turn__answer__is_shown=True)
    last = shown.order_by("-started_at")
    return steps.values_list("currency").annotate(
        cost=Sum("cost"),
        tokens=Sum(ALL_TOKENS),
        last=Subquery(last.values(size=F("input_tokens") + F("output_tokens"))[:1]),
        saved=Subquery(last.values("saved_tokens")[:1]),
    )


def _find_context_tokens(conversation: Conversation) -> int | None:
    """Return the context of the chosen model in tokens, if it is known. A process keeps it for up
    to a minute."""
    cache = current_runtime().context_sizes
    key, moment = (conversation.model, conversation.owner_id), int(time.monotonic() / KEPT_SECONDS)
    kept = cache.get(key, moment)
    if kept is not None:
        return kept[0]
    try:
        size = choose_model(conversation.model, conversation.owner).context_tokens
    except ProviderError:
        return None
    cache.put(key, moment, (size,))
    return size


@compiled
def load_queue(conversation_id: uuid.UUID) -> QuerySet[QueuedMessage]:
    return QueuedMessage.objects.filter(conversation=conversation_id)


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
    return load_facts_of_calls([call])[call.pk]


def load_facts_of_calls(calls: Sequence[ToolCall]) -> dict[uuid.UUID, CallFacts]:
    """Do the same for several calls of one conversation. The number of statements does not grow
    with the calls that are over."""
    asked, asking, plans, sign_ins = [], [], [], []
    for call in calls:
        if call.state == State.AWAITING_APPROVAL and getattr(call, "approval", None) is not None:
            asked.append(call)
        elif paused_cards.get_open_review(call) is not None:
            continue
        elif call.state == State.AWAITING_SIGN_IN:
            sign_ins.append(call)
        elif call.state in (State.AWAITING_INPUT, State.SENDING):
            if getattr(call, "has_question", True):
                asking.append(call)
        elif call.is_core and call.tool_name == "make-plan" and call.state == State.SUCCEEDED:
            plans.append(call)
    facts = {call.pk: CallFacts() for call in calls}
    facts |= _load_approval_facts(asked) if asked else {}
    facts |= _load_plans(plans) if plans else {}
    facts |= _load_questions(asking) if asking else {}
    facts |= _load_tasks(sign_ins) if sign_ins else {}
    return facts


def annotate_question(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """Read with each call whether a question about it is open: most calls that run have none."""
    asked = Question.objects.filter(tool_call=OuterRef("pk"), state=Question.State.OPEN)
    return calls.annotate(has_question=Exists(asked))


def _load_plans(calls: Sequence[ToolCall]) -> dict[uuid.UUID, CallFacts]:
    return {plan.pk: CallFacts(plan=plan) for plan in Plan.objects.filter(call__in=calls)}


def _load_questions(calls: Sequence[ToolCall]) -> dict[uuid.UUID, CallFacts]:
    asked = Question.objects.filter(tool_call__in=calls, state=Question.State.OPEN)
    return {each.tool_call_id: CallFacts(question=each) for each in asked}


def _load_tasks(calls: Sequence[ToolCall]) -> dict[uuid.UUID, CallFacts]:
    tasks = RemoteTask.objects.filter(tool_call__in=calls).values_list("pk", flat=True)
    known = set(tasks)
    return {
        call.pk: CallFacts(sign_in=_load_sign_in_facts(call), is_task=call.pk in known)
        for call in calls
    }


def _load_approval_facts(calls: Sequence[ToolCall]) -> dict[uuid.UUID, CallFacts]:
    previous = find_previous_calls(calls)
    before = _find_definitions_before(calls, previous)
    numbers = _find_numbers_in_steps(calls)
    house, copied = HousePolicy.current(), find_copied_values(calls)
    return {
        call.pk: CallFacts(
            previous=previous.get(call.pk),
            definition_before=before.get(call.pk),
            number=numbers.get(call.pk),
            scopes=house.scopes_for(call),
            names_person=call.service is not None and has_personal_headers(call.service),
            copied=copied[call.pk],
        )
        for call in calls
    }


def load_row_facts(piles: Iterable[WaitingGroup]) -> dict[uuid.UUID, CallFacts]:
    """Return what the rows of the inbox need to be decided there, for the waiting approvals of the
    person. An attention check has the row that its call would have."""
    asked = [
        each.call
        for pile in piles
        if pile.kind == "approval"
        for each in pile.waiting
        if each.call.state == State.AWAITING_APPROVAL and is_plain_for_row(each.call)
    ]
    return _load_approval_facts(asked) if asked else {}


def find_previous_calls(calls: Sequence[ToolCall]) -> dict[uuid.UUID, ToolCall]:
    """Return for each call the one of the same tool that was sent last in this chat."""
    # Built-in tools have no service.
    sent = ToolCall.objects.alias(maker=Coalesce("service", 0)).filter(
        turn__conversation=OuterRef("turn__conversation"),
        maker=Coalesce(OuterRef("service"), 0),
        tool_name=OuterRef("tool_name"),
        sent_at__isnull=False,
    )
    latest = sent.exclude(pk=OuterRef("pk")).order_by("-sent_at").values("pk")[:1]
    rows = ToolCall.objects.filter(pk__in=[call.pk for call in calls])
    ids = dict(rows.order_by().annotate(previous=Subquery(latest)).values_list("pk", "previous"))
    found = ToolCall.objects.in_bulk({previous for previous in ids.values() if previous})
    return {pk: found[previous] for pk, previous in ids.items() if previous in found}


def _find_definitions_before(
    calls: Sequence[ToolCall], previous: Mapping[uuid.UUID, ToolCall]
) -> dict[uuid.UUID, ToolDefinition]:
    """Return the definition that people knew, for each call whose tool has changed since.

    That is the one that an admin confirmed, or else that of the previous call in this chat, or else
    the one that a definition replaced which was first seen after this turn began.
    """
    tools = [call for call in calls if call.definition is not None and call.service is not None]
    if not tools:
        return {}
    of_tools = {
        "service__in": {call.service_id for call in tools},
        "name__in": {call.tool_name for call in tools},
    }
    settings = ToolSetting.objects.filter(**of_tools).exclude(confirmed_hash="")
    confirmed = {
        (service, name): hash_
        for service, name, hash_ in settings.values_list("service", "name", "confirmed_hash")
    }
    known: dict[tuple[int, str], list[KnownDefinition]] = defaultdict(list)
    rows = ToolDefinition.objects.filter(**of_tools).order_by("first_seen_at")
    for pk, service, name, hash_, first_seen_at in rows.values_list(
        "pk", "service", "name", "hash", "first_seen_at"
    ):
        known[service, name].append((pk, hash_, first_seen_at))
    ids = {}
    for call in tools:
        tool = (call.service_id or 0, call.tool_name)
        ids[call.pk] = _choose_before(
            call, known[tool], confirmed.get(tool, ""), previous.get(call.pk)
        )
    found = ToolDefinition.objects.in_bulk({pk for pk in ids.values() if pk})
    return {
        call.pk: found[ids[call.pk]]
        for call in tools
        if ids[call.pk] in found and ids[call.pk] != call.definition_id
    }


# Its id, its hash, and when it was first seen.
KnownDefinition = tuple[int, str, datetime]


def _choose_before(
    call: ToolCall, known: Sequence[KnownDefinition], confirmed: str, previous: ToolCall | None
) -> int:
    """Return the id of the definition that people knew, 0 if there is none. `known` are those of
    the tool, the oldest first."""
    now = call.definition
    if now is None:
        return 0
    if confirmed:
        return next((pk for pk, hash_, _ in known if hash_ == confirmed), 0)
    if previous is not None and previous.definition_id is not None:
        return next((pk for pk, _, _ in known if pk == previous.definition_id), 0)
    if now.first_seen_at > call.turn.created_at:
        return next((pk for pk, _, _ in reversed(known) if pk != now.pk), 0)
    return 0


def _find_numbers_in_steps(calls: Sequence[ToolCall]) -> dict[uuid.UUID, CallNumber]:
    """The numbers stay the same while the others are answered. A call that was asked about alone
    has none."""
    rows = ToolCall.objects.filter(
        turn__in={call.turn_id for call in calls}, approval__isnull=False
    ).order_by("position")
    steps: dict[tuple[uuid.UUID, int], list[uuid.UUID]] = defaultdict(list)
    for pk, turn, step in rows.values_list("pk", "turn", "step"):
        steps[turn, step].append(pk)
    return {
        call: CallNumber(own=place, of=len(step))
        for step in steps.values()
        for place, call in enumerate(step, start=1)
        if len(step) > 1
    }


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


def load_versions(
    conversation: Conversation, messages: Iterable[Message]
) -> dict[uuid.UUID, Version]:
    """Return the places of those of these messages that have other versions."""
    if not conversation.branched_seq:
        return {}
    rows = conversation.messages.filter(
        Q(parent=None) | Q(parent__in={m.parent_id for m in messages})
    )
    siblings: dict[uuid.UUID | None, list[uuid.UUID]] = defaultdict(list)
    for parent, pk in rows.order_by("created_seq").values_list("parent_id", "pk"):
        siblings[parent].append(pk)
    return {
        message.pk: _find_place(message, same)
        for message in messages
        if len(same := siblings[message.parent_id]) > 1
    }


def _find_place(message: Message, versions: Sequence[uuid.UUID]) -> Version:
    place = versions.index(message.pk)
    return Version(
        group=str(message.parent_id or "first"),
        number=place + 1,
        count=len(versions),
        earlier=versions[place - 1],
        later=versions[(place + 1) % len(versions)],
    )


def load_version(conversation: Conversation, message_id: uuid.UUID) -> Version | None:
    """Return the place of a message among its versions, or None if there is only this one."""
    if not conversation.branched_seq:
        return None
    messages = Message.objects.filter(pk=message_id)
    return load_versions(conversation, messages).get(message_id)


def get_feedback(answer: Message) -> Feedback | None:
    """Return how this answer is rated. The caller has selected the row with the message."""
    row: AnswerFeedback | None = getattr(answer, "feedback", None)
    return Feedback(is_good=row.is_good, comment=row.comment) if row else None


def load_turn_facts(
    turn: Turn, figures: Figures | None = None, has_text: bool | None = None
) -> TurnFacts:
    """Read what the status of a turn shows. Figures that are not given are counted, and whether the
    answer has text is looked up."""
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
        step = _find_last_step.first(turn.pk)
        is_calling = step is not None and step.state == Step.State.CALLING
        return TurnFacts(waits_because=step.waits_because if step and is_calling else "")
    if turn.is_live:
        return TurnFacts()
    return TurnFacts(
        figures=figures or count_figures([turn])[turn.pk], may_go_on=turn.may_go_on(has_text)
    )


@compiled
def _find_last_step(turn_id: uuid.UUID) -> QuerySet[Step]:
    return Step.objects.filter(turn=turn_id).order_by("-number")[:1]


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


def count_figures(
    turns: Iterable[Turn], calls: Iterable[ToolCall] | None = None
) -> dict[uuid.UUID, Figures]:
    """Return the figures of each turn by its id, counted in two queries, or in one if all calls of
    the turns are given."""
    known = list(turns)
    tokens: Counter[uuid.UUID] = Counter()
    costs: dict[uuid.UUID, dict[str, Decimal]] = defaultdict(dict)
    seconds: dict[uuid.UUID, float] = defaultdict(float)
    if len(known) == 1:
        steps = _list_used(known[0].pk)
    else:
        steps = list(Step.objects.filter(turn__in=known).values_list(*USED))
    for turn_id, written, summarised, began, ended, cost, currency in steps:
        tokens[turn_id] += written + summarised
        seconds[turn_id] += seconds_between(began, ended)
        if cost:
            costs[turn_id][currency] = costs[turn_id].get(currency, Decimal(0)) + cost
    if calls is None:
        if len(known) == 1:
            calls = _list_times_of_calls(known[0].pk)
        else:
            calls = ToolCall.objects.filter(turn__in=known).only(*TIMES)
    for call in calls:
        seconds[call.turn_id] += seconds_between(call.sent_at, call.finished_at)
    return {
        turn.pk: Figures(
            output_tokens=tokens[turn.pk],
            seconds=seconds[turn.pk],
            costs=round_costs(costs[turn.pk]),
        )
        for turn in known
    }


USED = (
    *("turn_id", "output_tokens", "summary_output_tokens"),
    *("started_at", "finished_at", "cost", "currency"),
)
TIMES = ("turn_id", "sent_at", "finished_at")


@compiled
def _list_used(turn_id: uuid.UUID) -> QuerySet[Step, Any]:
    return Step.objects.filter(turn=turn_id).values_list(*USED)


@compiled
def _list_times_of_calls(turn_id: uuid.UUID) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(turn=turn_id).only(*TIMES)


def seconds_between(began: datetime | None, ended: datetime | None) -> float:
    """Return 0 for what has not begun or not ended."""
    return (ended - began).total_seconds() if began and ended else 0.0
