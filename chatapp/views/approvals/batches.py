"""Answer several calls of a chat with one form, and show the outcome of each."""

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
from django.utils.translation import gettext_lazy, ngettext

from chatapp.approvals.batches import ShownCall, deny_together, run_together
from chatapp.forms import BatchForm
from chatapp.live.page_facts import load_batch, render_call
from chatapp.models import Conversation, ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context

from .decisions import UNREADABLE

NOTHING_SELECTED = gettext_lazy("Select at least one action, or answer each one on its card.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to a post: the cards that it concerns, and a sentence."""

    conversation: Conversation | None = None
    shown: Sequence[ShownCall] = ()
    refused: Mapping[uuid.UUID, str] | None = None
    picks: bool = False
    said: str = ""
    status: int = 200


@for_members("POST")
def decide_together(request: MemberRequest) -> HttpResponse:
    """Run the selected calls, deny all, or tick all that may be run together."""
    form = BatchForm(request.POST)
    try:
        if not form.is_valid():
            raise ValueError
        conversation = Conversation.of(request.user, form.cleaned_data["chat"])
        shown = [_read_card(request, conversation, each) for each in form.cleaned_data["shown"]]
    except (BadSignature, ValueError):
        return _render_answer(request, Answer(said=str(UNREADABLE), status=422))
    selected = [each for each in shown if each.call.pk in form.cleaned_data["run"]]
    match form.cleaned_data["decision"]:
        case "select":
            answer = Answer(conversation=conversation, shown=shown, picks=True)
        case "run" if not selected:
            answer = Answer(
                conversation=conversation, shown=shown, said=str(NOTHING_SELECTED), status=422
            )
        case "run":
            refused = run_together(selected, by=request.user)
            done = _count_allowed(len(selected) - len(refused))
            answer = _build_answer(conversation, selected, refused, done)
        case _:
            refused = deny_together(shown, by=request.user)
            done = _count_denied(len(shown) - len(refused))
            answer = _build_answer(conversation, shown, refused, done)
    return _render_answer(request, answer)


def _read_card(request: MemberRequest, conversation: Conversation, field: str) -> ShownCall:
    """Parse the field of one card: its call, the hash of what it showed, and its time. Raises
    ValueError and BadSignature."""
    call_id, binding, signed = field.split(" ")
    call = ToolCall.of(request.user, uuid.UUID(call_id))
    if call.turn.conversation_id != conversation.pk:
        raise Http404("No such tool call in this chat.")
    return ShownCall(call=call, binding=binding, shown_at=fragments.read_shown_at(call.pk, signed))


def _build_answer(
    conversation: Conversation,
    shown: Sequence[ShownCall],
    refused: Mapping[uuid.UUID, str],
    said: str,
) -> Answer:
    done = len(shown) - len(refused)
    if refused:
        said = f"{said} {_count_refused(len(refused))}"
    return Answer(
        conversation=conversation,
        shown=shown,
        refused=refused,
        said=said,
        status=200 if done else 409,
    )


def _count_allowed(count: int) -> str:
    sentence = ngettext("%(count)d action allowed.", "%(count)d actions allowed.", count)
    return sentence % {"count": count}


def _count_denied(count: int) -> str:
    sentence = ngettext("%(count)d action denied.", "%(count)d actions denied.", count)
    return sentence % {"count": count}


def _count_refused(count: int) -> str:
    sentence = ngettext(
        "%(count)d action was refused. Its card says why.",
        "%(count)d actions were refused. Their cards say why.",
        count,
    )
    return sentence % {"count": count}


def _render_answer(request: MemberRequest, answer: Answer) -> HttpResponse:
    if not request.htmx and answer.conversation and answer.refused == {}:
        return redirect("conversation", answer.conversation.pk)
    if request.htmx:
        changed = (
            _render_boxes(answer) if answer.refused is None else _render_cards(request, answer)
        )
        context = {"changed": changed, "said": answer.said}
        return render(request, "chat/_batch_answered.html", context, status=answer.status)
    turn = answer.shown[0].call.turn if answer.shown else None
    page_context: dict[str, Any] = {
        "changed": _render_cards(request, answer),
        "said": answer.said,
        "conversation": answer.conversation,
        "batch": load_batch(Turn.objects.get(pk=turn.pk)) if turn else None,
        **build_sidebar_context(
            request.user, str(answer.conversation.pk) if answer.conversation else ""
        ),
    }
    return render(request, "chat/batch.html", page_context, status=answer.status)


def _render_cards(request: MemberRequest, answer: Answer) -> list[tuple[str, SafeString]]:
    """Return each call as it is now, with the reason if its answer was refused."""
    refused = answer.refused or {}
    return [
        (
            page_values.tool_call_id(each.call.pk),
            SafeString(
                render_call(
                    ToolCall.of(request.user, each.call.pk),
                    get_token(request),
                    refused.get(each.call.pk, ""),
                    picked=answer.picks,
                )
            ),
        )
        for each in answer.shown
    ]


def _render_boxes(answer: Answer) -> list[tuple[str, SafeString]]:
    """Return only the ticked check boxes, so that text in the cards stays."""
    calls = [each.call for each in answer.shown if answer.picks and _can_be_picked(each.call)]
    return [
        (
            page_values.pick_id(call.pk),
            SafeString(render_to_string("chat/_pick.html", {"call": call, "picked": True})),
        )
        for call in calls
    ]


def _can_be_picked(call: ToolCall) -> bool:
    return call.state == ToolCall.State.AWAITING_APPROVAL and call.approval.may_be_batched
