"""The command palette: what a person can do or open from every page, found as they type."""

from collections.abc import Iterator

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.approvals.inbox import read_person_facts
from chatapp.conversations.search import find_titles
from chatapp.models import Conversation
from chatapp.models.conversations.search_index import split_words
from chatapp.views.access import MemberRequest, find_row, for_members

from .commands import (
    Entry,
    choose_entries,
    list_commands,
    list_presses,
    list_themes,
    mark_entry,
)
from .conversations import read_open_chat

MOST_CHATS = 6
MAX_CHARACTERS = 200
# Pages by the names of their addresses, with an icon. The account menu has the same.
PLACES = (
    ("approvals", gettext_lazy("Inbox"), "bell"),
    ("search", gettext_lazy("All chats"), "search"),
    ("projects", gettext_lazy("Projects"), "folder"),
    ("add-project", gettext_lazy("New project"), "plus"),
    ("assistants", gettext_lazy("Assistants"), "spark"),
    ("add-assistant", gettext_lazy("New assistant"), "plus"),
    ("prompts", gettext_lazy("Saved prompts"), "spark"),
    ("services", gettext_lazy("Connected services"), "plug"),
    ("consents", gettext_lazy("Permissions"), "shield"),
    ("tokens", gettext_lazy("Access tokens"), "key"),
    ("memory", gettext_lazy("Memory"), "bookmark"),
    ("usage", gettext_lazy("Usage"), "chart"),
    ("shared-links", gettext_lazy("Shared links"), "share"),
    ("imports", gettext_lazy("Import chats"), "download"),
    ("archived-chats", gettext_lazy("Archived chats"), "archive"),
    ("log", gettext_lazy("Activity log"), "clock"),
    ("settings", gettext_lazy("Settings"), "lock"),
    ("language", gettext_lazy("Language"), "globe"),
    ("set-password", gettext_lazy("Change password"), "lock"),
)
# The parts of the settings page, by their ids.
SETTINGS = (
    ("profile", gettext_lazy("Settings: profile"), "people"),
    ("appearance", gettext_lazy("Settings: appearance"), "screen"),
    ("notifications", gettext_lazy("Settings: notifications"), "bell"),
    ("security", gettext_lazy("Settings: security"), "lock"),
    ("sessions", gettext_lazy("Settings: sessions"), "phone"),
    ("data", gettext_lazy("Settings: your data"), "download"),
)
APPROVER_PLACE = ("stand-ins", gettext_lazy("Delegates"), "people")
ADMIN_PLACE = ("admin:index", gettext_lazy("Admin"), "gear")


@for_members("GET")
def palette(request: MemberRequest) -> HttpResponse:
    """Return the entries with all words in their labels; without words, all commands and pages,
    and the latest chats."""
    text = request.GET.get("q", "")[:MAX_CHARACTERS]
    words = split_words(text)
    chats = [_build_link(each) for each in find_titles(request.user, words, MOST_CHATS)]
    if words:
        chats.append(_build_search(text))
    groups = (
        (_("Commands"), choose_entries(_list_commands(request), words)),
        (_("Chats"), [mark_entry(each, words) for each in chats]),
        (_("Go to"), choose_entries(_list_places(request), words)),
    )
    context = {
        "groups": [(label, entries) for label, entries in groups if entries],
        "count": sum(len(entries) for _label, entries in groups),
    }
    return render(request, "chat/_palette_entries.html", context)


def _build_link(chat: Conversation) -> Entry:
    return Entry(label=str(chat), address=reverse("conversation", args=[chat.pk]), icon="quote")


def _build_search(text: str) -> Entry:
    label = _("Search messages for “%(words)s”") % {"words": text.strip()}
    address = reverse("search", query={"q": text})
    return Entry(label=label, address=address, icon="search", keys="Enter")


def _list_commands(request: MemberRequest) -> Iterator[Entry]:
    """Yield all that can be done on the page that asks."""
    chat = _find_current(request)
    has_box = chat is not None or _is_new_chat(request)
    yield from list_commands(chat)
    yield from list_presses(chat, has_box=has_box)
    yield from list_themes(request.user)


def _is_new_chat(request: MemberRequest) -> bool:
    path = request.htmx.current_url_abs_path or ""
    return path.partition("?")[0] == reverse("home")


def _find_current(request: MemberRequest) -> Conversation | None:
    """Return the chat that is open in the page that asks."""
    return find_row(Conversation.filter_owned(request.user), read_open_chat(request))


def _list_places(request: MemberRequest) -> Iterator[Entry]:
    places = [*PLACES]
    if read_person_facts(request.user).is_approver:
        places.append(APPROVER_PLACE)
    if request.user.is_staff:
        places.append(ADMIN_PLACE)
    for name, label, icon in places:
        yield Entry(label=str(label), address=reverse(name), icon=icon)
    for part, label, icon in SETTINGS:
        yield Entry(label=str(label), address=f"{reverse('settings')}#{part}", icon=icon)
