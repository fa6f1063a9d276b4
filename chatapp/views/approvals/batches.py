"""Answering several calls of a chat by one form, and showing what came of each."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.signing import BadSignature
from django.http import Http404, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from chatapp.forms import BatchForm
from chatapp.models import Conversation, ToolCall, Turn
from chatapp.rendering import fragments, page
from chatapp.rendering.batches import panel_of
from chatapp.turns.batches import Shown, deny_together, run_together

from .access import MemberRequest, for_members
from .approvals import UNREADABLE
from .conversations import sidebar_context

NOTHING_SELECTED = "Tick at least one action first, or answer each on its card."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the page says about a post: the cards that it is about, and a sentence."""

    conversation: Conversation | None = None
    shown: Sequence[Shown] = ()
    refused: Mapping[uuid.UUID, str] | None = None
    picks: bool = False
    said: str = ""
    status: int = 200


@for_members("POST")
def decide_together(request: MemberRequest) -> HttpResponse:
    """Run the selected calls, do not run any, or tick all that may be run together."""
    form = BatchForm(request.POST)
    try:
        if not form.is_valid():
            raise ValueError
        conversation = Conversation.of(request.user, form.cleaned_data["chat"])
        shown = [_shown(request, conversation, each) for each in form.cleaned_data["shown"]]
    except (BadSignature, ValueError):
        return _show(request, Answer(said=UNREADABLE, status=422))
    selected = [each for each in shown if each.call.pk in form.cleaned_data["run"]]
    match form.cleaned_data["decision"]:
        case "select":
            answer = Answer(conversation=conversation, shown=shown, picks=True)
        case "run" if not selected:
            answer = Answer(
                conversation=conversation, shown=shown, said=NOTHING_SELECTED, status=422
            )
        case "run":
            refused = run_together(selected, by=request.user)
            answer = _decided(conversation, selected, refused, "allowed")
        case _:
            refused = deny_together(shown, by=request.user)
            answer = _decided(conversation, shown, refused, "not run")
    return _show(request, answer)


def _shown(request: MemberRequest, conversation: Conversation, field: str) -> Shown:
    """One card's own field: its call, the hash of what it showed, and when it was made. Raises
    ValueError and BadSignature."""
    call_id, binding, signed = field.split(" ")
    call = ToolCall.of(request.user, uuid.UUID(call_id))
    if call.turn.conversation_id != conversation.pk:
        raise Http404("No such tool call in this chat.")
    return Shown(call=call, binding=binding, shown_at=fragments.read_shown_at(call.pk, signed))


def _decided(
    conversation: Conversation, shown: Sequence[Shown], refused: Mapping[uuid.UUID, str], word: str
) -> Answer:
    done = len(shown) - len(refused)
    said = f"{done} {word}."
    if refused:
        said += f" {len(refused)} refused: the card says why."
    return Answer(
        conversation=conversation,
        shown=shown,
        refused=refused,
        said=said,
        status=200 if done else 409,
    )


def _show(request: MemberRequest, answer: Answer) -> HttpResponse:
    if not request.htmx and answer.refused is not None and not answer.refused:
        assert answer.conversation is not None  # noqa: S101  something of it was decided
        return redirect("conversation", answer.conversation.pk)
    if request.htmx:
        changed = _boxes(answer) if answer.refused is None else _cards(request, answer)
        context = {"changed": changed, "said": answer.said}
        return render(request, "chat/_batch_answered.html", context, status=answer.status)
    turn = answer.shown[0].call.turn if answer.shown else None
    page_context: dict[str, Any] = {
        "changed": _cards(request, answer),
        "said": answer.said,
        "conversation": answer.conversation,
        "batch": panel_of(Turn.objects.get(pk=turn.pk)) if turn else None,
        **sidebar_context(request.user, str(answer.conversation.pk) if answer.conversation else ""),
    }
    return render(request, "chat/batch.html", page_context, status=answer.status)


def _cards(request: MemberRequest, answer: Answer) -> list[tuple[str, SafeString]]:
    """Each call as it is now, with the sentence of one that was refused."""
    refused = answer.refused or {}
    return [
        (
            page.tool_call_id(each.call.pk),
            SafeString(
                fragments.tool_call(
                    ToolCall.of(request.user, each.call.pk),
                    get_token(request),
                    refused.get(each.call.pk, ""),
                    picked=answer.picks,
                )
            ),
        )
        for each in answer.shown
    ]


def _boxes(answer: Answer) -> list[tuple[str, SafeString]]:
    """Only the check boxes, ticked, so that what was typed into the cards stays."""
    calls = [each.call for each in answer.shown if answer.picks and _may_be_picked(each.call)]
    return [
        (
            page.pick_id(call.pk),
            SafeString(render_to_string("chat/_pick.html", {"call": call, "picked": True})),
        )
        for call in calls
    ]


def _may_be_picked(call: ToolCall) -> bool:
    return call.state == ToolCall.State.AWAITING_APPROVAL and call.approval.may_be_batched
