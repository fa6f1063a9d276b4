"""The page on which a person searches in their chats."""

import uuid
from dataclasses import dataclass

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from chatapp.conversations.search import (
    FoundChat,
    Search,
    find_message,
    read_text,
    search_chats,
)
from chatapp.models import Conversation, Message
from chatapp.rendering import page_values
from chatapp.rendering.highlights import mark_words
from chatapp.views.access import MemberRequest, for_members

from .conversations import build_message_address, build_sidebar_context

ARCHIVED = {"": None, "no": False, "yes": True}
SIDES = {
    Message.Role.USER: gettext_lazy("You"),
    Message.Role.ASSISTANT: gettext_lazy("Assistant"),
}


class SearchForm(forms.Form):
    q = forms.CharField(max_length=200, required=False, label=gettext_lazy("Search chats"))
    age = forms.TypedChoiceField(
        required=False,
        label=gettext_lazy("Time"),
        coerce=int,
        empty_value=None,
        choices=[
            ("", gettext_lazy("Any time")),
            ("7", gettext_lazy("Last 7 days")),
            ("30", gettext_lazy("Last 30 days")),
            ("365", gettext_lazy("Last year")),
        ],
    )
    side = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Written by"),
        choices=[
            ("", gettext_lazy("Anyone")),
            (Message.Role.USER.value, gettext_lazy("You")),
            (Message.Role.ASSISTANT.value, gettext_lazy("Assistant")),
        ],
    )
    archived = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Chats"),
        choices=[
            ("", gettext_lazy("All chats")),
            ("no", gettext_lazy("Not archived")),
            ("yes", gettext_lazy("Archived")),
        ],
    )

    def build_search(self) -> Search:
        given = self.cleaned_data
        return Search(
            text=given["q"],
            is_archived=ARCHIVED[given["archived"]],
            role=given["side"],
            days=given["age"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLine:
    """A chat as the page shows it: its title and excerpts with the words marked."""

    conversation: Conversation
    title: SafeString
    excerpts: tuple[tuple[uuid.UUID, str, SafeString], ...]


@for_members("GET")
def search(request: MemberRequest) -> HttpResponse:
    form = SearchForm(request.GET)
    is_valid = form.is_valid()
    found = search_chats(request.user, form.build_search()) if is_valid else None
    context = {
        "form": form,
        "found": found,
        "lines": [_build_line(each, found.words) for each in found.chats] if found else [],
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/search.html", context, status=200 if is_valid else 422)


@for_members("GET")
def open_message(request: MemberRequest, message_id: uuid.UUID) -> HttpResponse:
    """Redirect to a message in its chat, in whichever part or version of the chat it is."""
    message = find_message(request.user, message_id)
    if message is None:
        raise Http404("No such message.")
    return redirect(build_message_address(message, page_values.message_id(message.pk)))


@for_members("GET")
def read_message(request: MemberRequest, message_id: uuid.UUID) -> HttpResponse:
    """Return the text of a message as it was written, in Markdown, to copy it."""
    message = find_message(request.user, message_id)
    if message is None:
        raise Http404("No such message.")
    return HttpResponse(read_text(message), content_type="text/plain; charset=utf-8")


def _build_line(chat: FoundChat, words: list[str]) -> FoundLine:
    return FoundLine(
        conversation=chat.conversation,
        title=mark_words(str(chat.conversation), words),
        excerpts=tuple(
            (each.message_id, str(SIDES[Message.Role(each.role)]), mark_words(each.text, words))
            for each in chat.excerpts
        ),
    )
