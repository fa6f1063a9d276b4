"""Saves the message that a person is writing."""

from http import HTTPStatus

from django.http import HttpResponse

from chatapp.conversations import drafts
from chatapp.forms import DraftForm
from chatapp.models import Conversation
from chatapp.people.refused import Refused
from chatapp.views.access import MemberRequest, for_members

from .picker import SLASH


@for_members("POST")
def keep(request: MemberRequest) -> HttpResponse:
    """Save the content of the message box. What could not be sent replaces nothing; the page
    still has it."""
    form = DraftForm(request.POST)
    if not form.is_valid():
        return HttpResponse(status=HTTPStatus.UNPROCESSABLE_ENTITY)
    kept = form.cleaned_data
    chat_id = kept.pop("chat")
    if SLASH.fullmatch(kept["text"]):
        kept["text"] = ""  # the name of a command or a prompt
    conversation = Conversation.of(request.user, chat_id) if chat_id else None
    try:
        drafts.keep_draft(request.user, conversation, **kept)
    except Refused as refused:
        return HttpResponse(status=refused.status)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)
