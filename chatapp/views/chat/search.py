"""The page on which a person searches in their chats, lists them, and changes several at once."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.conversations.bulk_actions import ACTIONS, change_chats, check_choice
from chatapp.conversations.search import (
    FoundChat,
    Search,
    find_message,
    read_text,
    search_chats,
)
from chatapp.models import Conversation, Member, Message, Project
from chatapp.people.refused import Refused
from chatapp.rendering import page_values
from chatapp.rendering.highlights import mark_words
from chatapp.views.access import MemberRequest, for_members

from .conversations import build_message_address, build_sidebar_context
from .export import build_archive

NOTHING_LEFT = gettext_lazy("Nothing to change: these chats are gone or already changed.")
CHOSEN = {"": None, "no": False, "person": False, "yes": True, "program": True}
SESSION_KEY = "bulk_action"
MAX_PAGE_DIGITS = 6
MAX_PROJECTS = 100
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
    begun = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Begun by"),
        choices=[
            ("", gettext_lazy("Anyone")),
            ("person", gettext_lazy("You")),
            ("program", gettext_lazy("Programs")),
        ],
    )

    project = forms.TypedChoiceField(
        required=False, label=gettext_lazy("Project"), coerce=uuid.UUID, empty_value=None
    )

    def __init__(self, *args: Any, person: Member, **more: Any) -> None:
        super().__init__(*args, **more)
        projects = Project.filter_joined(person).values_list("pk", "name")[:MAX_PROJECTS]
        listed = [(str(pk), name) for pk, name in projects]
        # Without a project there is nothing to choose.
        if listed:
            self.fields["project"].choices = [("", _("Any project")), *listed]  # type: ignore[attr-defined]
        else:
            del self.fields["project"]

    @property
    def is_filtered(self) -> bool:
        """Whether a filter may be why nothing was found."""
        names = ("age", "archived", "begun", "project")
        return any(self.cleaned_data.get(name) for name in names)

    def build_search(self, page: int) -> Search:
        given = self.cleaned_data
        return Search(
            text=given["q"],
            page=page,
            is_archived=CHOSEN[given["archived"]],
            is_of_program=CHOSEN[given["begun"]],
            role=given["side"],
            days=given["age"],
            project=given.get("project"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLine:
    """A chat as the page shows it: its title and excerpts with the words marked."""

    conversation: Conversation
    title: SafeString
    excerpts: tuple[tuple[uuid.UUID, str, SafeString], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """What a form did to these chats, and the name of the action that undoes it, if any."""

    sentence: str
    undo: str
    changed: Sequence[str]


@for_members("GET", "POST")
def search(request: MemberRequest) -> HttpResponse:
    """Show the chats with the words, or all chats. A POST changes the selected ones or exports
    them."""
    if request.method != "POST":
        return _render_search(request)
    chosen = _read_chosen(request)
    try:
        if request.POST.get("do") == "export":
            return build_archive(request, _find_chosen(request.user, chosen))
        _change_chosen(request, chosen)
    except Refused as refused:
        return _render_search(request, refused, chosen)
    # A reload of the next page changes nothing.
    return redirect(request.get_full_path())


def _render_search(
    request: MemberRequest, problem: Refused | None = None, selected: Sequence[uuid.UUID] = ()
) -> HttpResponse:
    form = SearchForm(request.GET, person=request.user)
    is_valid = form.is_valid()
    page = _read_page(request.GET.get("page", ""))
    found = search_chats(request.user, form.build_search(page)) if is_valid else None
    outcome = None if problem else _take_outcome(request)
    if request.GET.get("select") == "all" and found and not outcome and not problem:
        selected = [each.conversation.pk for each in found.chats]
    context = {
        "form": form,
        "found": found,
        "page": page,
        "lines": [_build_line(each, found.words) for each in found.chats] if found else [],
        "selected": selected,
        "outcome": outcome,
        "problem": problem,
        **build_sidebar_context(request.user, ""),
    }
    status = problem.status if problem else 200 if is_valid else 422
    return render(request, "chat/search.html", context, status=status)


def _read_page(given: str) -> int:
    return max(int(given), 1) if given.isdecimal() and len(given) <= MAX_PAGE_DIGITS else 1


def _read_chosen(request: MemberRequest) -> list[uuid.UUID]:
    try:
        return [uuid.UUID(each) for each in request.POST.getlist("chat")]
    except ValueError:
        raise Http404("No such chat.") from None


def _find_chosen(person: Member, chosen: Sequence[uuid.UUID]) -> list[Conversation]:
    check_choice(chosen)
    return list(Conversation.filter_listed(person).filter(pk__in=chosen).order_by("-active_at"))


def _change_chosen(request: MemberRequest, chosen: Sequence[uuid.UUID]) -> None:
    """Change the chats, and keep in the session what the next page says about it."""
    name = request.POST.get("do", "")
    if name not in ACTIONS:
        raise Http404("No such action.")
    changed = change_chats(request.user, ACTIONS[name], chosen)
    if not changed:
        raise Refused(NOTHING_LEFT)
    undo = "" if request.POST.get("undo") else ACTIONS[name].undo
    ids = [str(each.pk) for each in changed]
    request.session[SESSION_KEY] = {"name": name, "undo": undo, "changed": ids}


def _take_outcome(request: MemberRequest) -> BulkOutcome | None:
    kept = request.session.pop(SESSION_KEY, None)
    if kept is None:
        return None
    count = len(kept["changed"])
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
    sentence = sentences[kept["name"]] % {"count": count}
    return BulkOutcome(sentence=sentence, undo=kept["undo"], changed=kept["changed"])


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
