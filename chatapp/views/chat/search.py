"""The page on which a person searches in their chats, lists them, and changes several at once."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from chatapp.conversations.bulk_actions import ACTIONS, change_chats, check_choice
from chatapp.conversations.search import (
    FoundChat,
    Search,
    find_message,
    read_text,
    search_chats,
)
from chatapp.models import Conversation, Member, Message
from chatapp.people.refused import Refused
from chatapp.rendering import page_values
from chatapp.rendering.highlights import mark_words
from chatapp.views.access import MemberRequest, for_members

from .conversations import build_message_address, build_sidebar_context
from .export import build_archive

NOTHING_LEFT = gettext_lazy("Nothing to change: these chats are gone or already changed.")
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
    page = forms.IntegerField(
        required=False, min_value=1, max_value=1_000, widget=forms.HiddenInput
    )

    @property
    def is_filtered(self) -> bool:
        """Whether a filter or a later page may be why nothing was found."""
        return any(self.cleaned_data.get(name) for name in ("age", "side", "archived", "page"))

    def build_search(self) -> Search:
        given = self.cleaned_data
        return Search(
            text=given["q"],
            page=given["page"] or 1,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """What a form did to several chats, and the name of the action that undoes it."""

    sentence: str
    undo: str = ""
    changed: Sequence[Conversation] = field(default=())


@for_members("GET", "POST")
def search(request: MemberRequest) -> HttpResponse:
    """Show the chats with the words, or all chats. A POST first changes the selected ones or
    exports them."""
    outcome, problem, selected = None, None, set[uuid.UUID]()
    if request.method == "POST":
        chosen = _read_chosen(request)
        try:
            if request.POST.get("do") == "export":
                return build_archive(request, _find_chosen(request.user, chosen))
            outcome = _change_chosen(request, chosen)
        except Refused as refused:
            problem, selected = refused, set(chosen)
    form = SearchForm(request.GET)
    is_valid = form.is_valid()
    found = search_chats(request.user, form.build_search()) if is_valid else None
    if request.GET.get("select") == "all" and found and not outcome:
        selected |= {each.conversation.pk for each in found.chats}
    context = {
        "form": form,
        "found": found,
        "page": (form.cleaned_data["page"] or 1) if is_valid else 1,
        "lines": [_build_line(each, found.words) for each in found.chats] if found else [],
        "selected": selected,
        "outcome": outcome,
        "problem": problem,
        **build_sidebar_context(request.user, ""),
    }
    status = problem.status if problem else 200 if is_valid else 422
    return render(request, "chat/search.html", context, status=status)


def _read_chosen(request: MemberRequest) -> list[uuid.UUID]:
    try:
        return [uuid.UUID(each) for each in request.POST.getlist("chat")]
    except ValueError:
        raise Http404("No such chat.") from None


def _find_chosen(person: Member, chosen: Sequence[uuid.UUID]) -> list[Conversation]:
    check_choice(chosen)
    found = list(Conversation.filter_listed(person).filter(pk__in=chosen).order_by("-active_at"))
    if not found:
        raise Refused(NOTHING_LEFT)
    return found


def _change_chosen(request: MemberRequest, chosen: Sequence[uuid.UUID]) -> BulkOutcome:
    name = request.POST.get("do", "")
    if name not in ACTIONS:
        raise Http404("No such action.")
    changed = change_chats(request.user, ACTIONS[name], chosen)
    if not changed:
        raise Refused(NOTHING_LEFT)
    count = len(changed)
    sentences = {
        "archive": ngettext("%(count)s chat archived.", "%(count)s chats archived.", count),
        "unarchive": ngettext(
            "%(count)s chat moved back to the list.",
            "%(count)s chats moved back to the list.",
            count,
        ),
        "read": ngettext(
            "%(count)s chat marked as read.", "%(count)s chats marked as read.", count
        ),
        "unread": ngettext(
            "%(count)s chat marked as unread.", "%(count)s chats marked as unread.", count
        ),
        "delete": ngettext("%(count)s chat deleted.", "%(count)s chats deleted.", count),
        "restore": ngettext("%(count)s chat restored.", "%(count)s chats restored.", count),
    }
    sentence = sentences[name] % {"count": count}
    return BulkOutcome(sentence=sentence, undo=ACTIONS[name].undo, changed=changed)


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
