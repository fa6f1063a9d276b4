"""Accepts what a person does to a conversation: a new message, Stop, and a switch of its mode."""

import uuid
from collections.abc import Sequence

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.calls.transitions import Actor
from chatapp.context import attachments as attaching
from chatapp.engine.ending import end_turn
from chatapp.engine.titles import shorten_to_title
from chatapp.journal import journal
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.journal import Entry, wake
from chatapp.models import Attachment, Conversation, LogEntry, Member, Message, Part, Turn
from chatapp.people.refused import Refused
from chatapp.providers.access import usage
from chatapp.providers.access.model_choice import choose_model
from chatapp.providers.events import ProviderError
from chatapp.providers.request import DEFAULT_EFFORT, EFFORTS, read_effort
from chatapp.server.compiled_queries import compiled, insert_rows
from mcpconfig.models import Service

from . import branches, projects
from .assistants import AssistantChoice, load_start, switch_services

NOT_VALID = gettext_lazy("This message is not valid. Reload the page, then send it again.")
OPEN_REQUEST = gettext_lazy("Answer or stop the open request first.")
STILL_WORKING = gettext_lazy(
    "The assistant is still working on this chat. Stop it, or wait for its answer."
)
# Such as a service, between its switch in the new chat and the commit.
NOT_STARTED = gettext_lazy(
    "Your message was not sent, because something that this chat needs was deleted meanwhile. Send "
    "your message again."
)


class StillWorking(Refused):
    """The assistant is still answering, so that no message can follow yet."""

    def __init__(self) -> None:
        super().__init__(STILL_WORKING, 409)


def receive(
    person: Member,
    conversation: Conversation | None,
    *,
    text: str,
    model: str,
    client_id: uuid.UUID | None = None,
    services: list[str] | None = None,
    attachments: Sequence[uuid.UUID] = (),
    mode: str = "",
    tools: str = "",
    effort: str = "",
    is_temporary: bool = False,
    assistant: AssistantChoice | None = None,
    project: projects.ProjectChoice | None = None,
    edited: Message | None = None,
) -> Turn:
    """Accept a message and queue its turn. Without a conversation, create one. Raises Refused.

    A `client_id` that was accepted before returns the turn of that message. A turn that waits for a
    person is ended: its open questions are withdrawn, and the model is told so. `mode`, `tools`
    (“off” for none), `is_temporary`, `assistant` and `project` apply to a new conversation.
    `effort` is how much the model reasons in this conversation from now on, “default” what the
    model's settings say; empty changes nothing. The message is another version of `edited`, with
    its attachments, if that is given.
    """
    try:
        check_text(text)
        check_effort(effort)
        check_may_ask(person, model)
        files = attaching.load_drafts(person, attachments)
        with transaction.atomic():
            begun = conversation or _create_conversation(
                person, text, model, mode, tools, is_temporary, assistant, project
            )
            _set_effort(begun, effort)
            if edited is None:
                turn = _accept(begun, text, model, client_id, services, files, conversation is None)
            else:
                turn = _accept_edited(edited, text, model, client_id)
            if conversation is None:
                log_first_mode(begun)
    except (IntegrityError, Refused) as problem:
        # The same message may have been accepted before, or at this moment.
        if client_id is not None and (known := _find_accepted(person, client_id)):
            return known
        if isinstance(problem, Refused):
            raise
        if conversation is None:
            raise Refused(str(NOT_STARTED), 409) from None
        raise StillWorking from None
    return turn


def check_text(text: str) -> None:
    if not text.strip():
        raise Refused(_("Enter a message."))
    check_characters(text)


def check_characters(text: str) -> None:
    """Raise Refused if the text is too long to be sent, or has a character that cannot be
    stored."""
    if len(text) > settings.MESSAGE_MAX_CHARACTERS:
        raise Refused(explain_too_long(intcomma(len(text))))
    if "\x00" in text:
        raise Refused(_("This message contains a character that cannot be stored. Remove it."))


def check_effort(effort: str) -> None:
    if effort and read_effort(effort) is None:
        known = [each for each in EFFORTS if each]
        sentence = _("Unknown effort “%(effort)s”. Choose one of: %(names)s.")
        raise Refused(
            sentence % {"effort": effort[:20], "names": ", ".join([DEFAULT_EFFORT, *known])}
        )


def _set_effort(conversation: Conversation, effort: str) -> None:
    chosen = read_effort(effort)
    if chosen is not None and chosen != conversation.effort:
        Conversation.objects.filter(pk=conversation.pk).update(effort=chosen)
        conversation.effort = chosen


def explain_too_long(count: str = "") -> str:
    """Return why a message with this many characters is refused; by default, with an unknown
    count."""
    most = settings.MESSAGE_MAX_CHARACTERS
    if not count:
        sentence = _("This message is too long. The limit is %(most)s characters.")
        return sentence % {"most": intcomma(most)}
    sentence = _(
        "This message has %(count)s characters. The limit is %(most)s. Shorten it, or send it in "
        "parts."
    )
    return sentence % {"count": count, "most": intcomma(most)}


def check_may_ask(person: Member, model: str) -> None:
    """Raise Refused if this person may not use the model, or has used up an allowance."""
    try:
        choose_model(model, person)
    except ProviderError as error:
        raise Refused(" ".join(filter(None, [error.message, error.hint]))) from None
    if sentence := usage.find_used_up_allowance(person):
        raise Refused(f"{sentence} {usage.describe_renewal()}", 409)


def _find_accepted(person: Member, client_id: uuid.UUID) -> Turn | None:
    return Turn.objects.filter(question__client_id=client_id, conversation__owner=person).first()


def _create_conversation(
    person: Member,
    text: str,
    model: str,
    mode: str,
    tools: str,
    is_temporary: bool,
    choice: AssistantChoice | None,
    project_choice: projects.ProjectChoice | None,
) -> Conversation:
    start = load_start(person, choice) if choice is not None else None
    project = projects.load_project(person, project_choice) if project_choice else None
    known = mode if mode in Conversation.Mode.values else Conversation.Mode.ACT
    created = Conversation.objects.create(
        owner=person,
        title=shorten_to_title(text),
        title_is_draft=True,
        model=model,
        mode=known,
        uses_tools=tools != "off",
        read_at=timezone.now(),
        is_temporary=is_temporary,
        temperature=start.assistant.temperature if start else None,
        output_tokens=start.assistant.output_tokens if start else None,
        instructions=start.instructions if start else "",
        assistant=start.assistant if start else None,
        project=project,
    )
    if start is not None:
        switch_services(created, start.assistant)
    if project is not None:
        projects.switch_services(created, project)
    return created


def _accept(
    conversation: Conversation,
    text: str,
    model: str,
    client_id: uuid.UUID | None,
    services: list[str] | None,
    files: Sequence[Attachment],
    is_new: bool,
) -> Turn:
    parent_id = None if is_new else _use_again(conversation, model)
    question, answer = _store_messages(conversation, parent_id, text, client_id)
    attaching.attach_to_message(question, files)
    turn = Turn(
        conversation=conversation,
        question=question,
        answer=answer,
        model=model,
        services=services,
    )
    return _queue(turn, [journal.message_entry(question)])


def _accept_edited(edited: Message, text: str, model: str, client_id: uuid.UUID | None) -> Turn:
    """Accept another version of a message."""
    conversation = edited.conversation
    _use_again(conversation, model, _("You edited a message, so the open request was cancelled."))
    hidden = branches.hide_branch(edited, with_message=True)
    question, answer = _store_messages(conversation, edited.parent_id, text, client_id)
    attaching.attach_to_message(question, attaching.copy_attachments(edited))
    entries = [hidden, journal.message_entry(question)]
    return _queue_version(answer, model, _find_services(edited), entries)


def accept_other_answer(question: Message, model: str) -> Turn:
    """Accept the request for another answer to a message, inside a transaction. Raises Refused,
    also while a request is open: one button should not cancel it."""
    conversation = question.conversation
    refuse_while_live(lock_latest(conversation))
    _use_again(conversation, model)
    hidden = branches.hide_branch(question, with_message=False)
    answer = Message(conversation=conversation, parent=question, role=Message.Role.ASSISTANT)
    insert_rows([answer])
    return _queue_version(answer, model, _find_services(question), [hidden])


def _queue_version(
    answer: Message, model: str, services: list[str] | None, entries: list[Entry]
) -> Turn:
    """Store the turn of a new version, and these entries before its own."""
    turn = Turn(
        conversation=answer.conversation,
        question=answer.parent,
        answer=answer,
        model=model,
        services=services,
    )
    _queue(turn, entries)
    branches.mark_branched(answer.conversation_id)
    return turn


def _find_services(question: Message) -> list[str] | None:
    """Return the services that the first answer to a message was limited to, or None. A copied
    message has no such limit."""
    return question.turns_asked.order_by("created_at").values_list("services", flat=True).first()


def _queue(turn: Turn, entries: list[Entry]) -> Turn:
    """Store a new turn, and these entries before its own."""
    insert_rows([turn])
    entries = [
        *entries,
        journal.message_entry(turn.answer),
        journal.turn_entry(turn, Turn.State.QUEUED),
    ]
    # Before the events: what waits for the commit runs in this order, and a model should be asked
    # before pages are rendered.
    journal.begin(turn.pk)
    journal.append(turn.conversation_id, turn.pk, entries, is_activity=True)
    reach(FaultPoint.MESSAGE_STORED_UNCOMMITTED)
    return turn


def refuse_while_live(turn: Turn | None) -> None:
    """Raise Refused if this turn runs or waits."""
    if turn is not None and turn.is_live:
        raise Refused(OPEN_REQUEST if turn.state == Turn.State.WAITING else STILL_WORKING, 409)


def _use_again(conversation: Conversation, model: str, why: str = "") -> uuid.UUID | None:
    """Let a new message follow in this chat. Return the id of the latest message. Raises Refused
    if a turn is running. A turn that waits for this person is ended; `why` is the notice about
    it."""
    latest = lock_latest(conversation)
    now = conversation if latest is None else latest.conversation
    if now.model != model or now.token_id is not None or now.archived_at is not None:
        # A program's chat becomes the person's own when they write in it, and an archived one comes
        # back into the list.
        rows = Conversation.objects.filter(pk=conversation.pk)
        rows.update(model=model, token=None, archived_at=None)
    if latest is None:  # all messages are copies, or came from a program
        messages = conversation.messages.filter(is_shown=True).order_by("created_seq")
        return messages.values_list("pk", flat=True).last()
    # A live turn is the latest, as no other begins before it is over.
    if latest.is_live:
        _end_waiting_turn(
            latest, why or _("You sent a new message, so the open request was cancelled.")
        )
    return latest.answer_id


def lock_latest(conversation: Conversation) -> Turn | None:
    """Lock the latest turn on the branch that is shown until the caller's commit and return it, so
    that what a person does to a chat happens one after another. Like everywhere, the turn is locked
    before the conversation. If all messages of that branch are copies, there is no turn, and the
    conversation is locked instead."""
    while True:
        latest = _lock_latest.first(conversation.pk)
        if latest is None:
            if _lock_without_turns(conversation.pk):
                return None
        # Another version may have been shown while this waited for the lock.
        elif not latest.conversation.branched_seq or is_shown(latest):
            return latest


def _lock_without_turns(conversation_id: uuid.UUID) -> bool:
    """Lock the conversation, unless its branch has a turn now: that is locked first."""
    with transaction.atomic():
        journal.lock_conversation(conversation_id)
        has_turn = _filter_shown(conversation_id).exists()
        # Gives up the lock again.
        transaction.set_rollback(has_turn)
    return not has_turn


def _filter_shown(conversation_id: uuid.UUID) -> QuerySet[Turn]:
    return Turn.objects.filter(conversation=conversation_id, answer__is_shown=True)


def is_shown(turn: Turn) -> bool:
    """Return whether pages show the answer of this turn, as the database has it now."""
    return Message.objects.filter(pk=turn.answer_id, is_shown=True).exists()


@compiled
def _lock_latest(conversation_id: uuid.UUID) -> QuerySet[Turn]:
    turns = _filter_shown(conversation_id).select_for_update(of=("self",))
    return turns.select_related("conversation").order_by("-created_at")[:1]


def _end_waiting_turn(turn: Turn, why: str) -> None:
    """End a turn that waits for this person. Raises Refused if it is running."""
    if turn.state != Turn.State.WAITING:
        raise StillWorking
    end_turn(turn, "stopped", why, by=Actor.PERSON)


def _store_messages(
    conversation: Conversation, parent_id: uuid.UUID | None, text: str, client_id: uuid.UUID | None
) -> tuple[Message, Message]:
    """Store the person's message after the latest one, and the empty answer that follows it."""
    question = Message(
        conversation=conversation, parent_id=parent_id, role=Message.Role.USER, client_id=client_id
    )
    answer = Message(conversation=conversation, parent=question, role=Message.Role.ASSISTANT)
    insert_rows([question, answer])
    insert_rows([Part(message=question, position=0, kind=Part.Kind.TEXT, text=text)])
    return question, answer


def stop(conversation: Conversation) -> None:
    """Stop the live turn, if there is one. A running turn is stopped by its worker."""
    with transaction.atomic():
        turn = (
            Turn.objects.select_for_update()
            .filter(conversation=conversation, state__in=Turn.LIVE)
            .first()
        )
        if turn is None:
            return
        if turn.state == Turn.State.RUNNING:
            Turn.objects.filter(pk=turn.pk).update(stop_requested=True, signals=turn.signals + 1)
            transaction.on_commit(lambda: wake(turn.pk))
        else:
            end_turn(turn, "stopped", by=Actor.PERSON)
    # A worker in this process sees the request at once. Another one gets a hint, and also looks
    # regularly.


def find_unknown_services(person: Member, names: list[str]) -> list[str]:
    """Return the names that belong to no service that this person may use."""
    known = Service.objects.for_member(person).filter(name__in=names)
    return sorted(set(names) - set(known.values_list("name", flat=True)))


def switch_mode(conversation: Conversation, mode: str) -> None:
    """Switch a chat between planning and acting, from its next model or tool call on."""
    if mode not in Conversation.Mode.values:
        raise Refused(_("The mode must be “plan” or “act”."))
    with transaction.atomic():
        latest = lock_latest(conversation)
        others = Conversation.objects.filter(pk=conversation.pk).exclude(mode=mode)
        has_switched = others.update(mode=mode) == 1
        if latest is not None:
            entry = journal.turn_entry(latest, latest.state)
            journal.append(conversation.pk, latest.pk, [entry])
        if has_switched:
            audit_log.append([_build_mode_entry(conversation, mode)])
    conversation.mode = mode


def log_first_mode(conversation: Conversation) -> None:
    """Log the mode of a new chat that plans, as if it had been switched. The log then has the mode
    in which its first calls were decided."""
    if conversation.mode != Conversation.Mode.ACT:
        audit_log.append([_build_mode_entry(conversation, conversation.mode)])


def _build_mode_entry(conversation: Conversation, mode: str) -> AuditEvent:
    owner = Who.of(conversation.owner)
    return AuditEvent(
        kind=LogEntry.Kind.MODE,
        data={"mode": mode},
        actor=owner,
        person=owner,
        conversation_id=conversation.pk,
    )
