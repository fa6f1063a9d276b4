"""What a person can do from every page and in the open chat, for the palette and after `/`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.models import Conversation, Member, Message, Turn
from chatapp.models.conversations.search_index import split_words
from chatapp.rendering.highlights import mark_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command or a page: a link to `address`, or with a `field` a form that sends it there; with
    `is_step`, a step of the picker. With `press` it presses what this selector finds on the page.
    `keys` is its shortcut, and `name` what finds it after `/`."""

    label: str
    icon: str
    address: str = ""
    press: str = ""
    field: tuple[str, str] | None = None
    is_step: bool = False
    keys: str = ""
    name: str = ""
    marked: SafeString = SafeString()


def choose_entries(entries: Iterator[Entry], words: Sequence[str]) -> list[Entry]:
    """Return the entries in whose name or label each word begins one, marked."""
    return [
        mark_entry(entry, words)
        for entry in entries
        if all(
            any(part.startswith(word) for part in [entry.name, *split_words(entry.label)])
            for word in words
        )
    ]


def mark_entry(entry: Entry, words: Sequence[str]) -> Entry:
    return replace(entry, marked=mark_words(entry.label, list(words)))


def list_commands(chat: Conversation | None) -> Iterator[Entry]:
    """Yield what can be done, with the commands of this chat."""
    yield Entry(label=_("New chat"), address=reverse("home"), icon="new", keys="Ctrl J", name="new")
    temporary = reverse("home", query={"temporary": "on"})
    yield Entry(label=_("New temporary chat"), address=temporary, icon="clock", name="temporary")
    if chat is None:
        return

    def build(
        page: str, name: str, label: str, icon: str, field: tuple[str, str] | None = None
    ) -> Entry:
        address = reverse(page, args=[chat.pk])
        return Entry(label=label, address=address, icon=icon, field=field, name=name)

    if chat.mode == Conversation.Mode.PLAN:
        yield build("mode", "plan", _("Turn off plan mode"), "eye", ("mode", "act"))
    else:
        yield build("mode", "plan", _("Turn on plan mode"), "eye", ("mode", "plan"))
    label = _("Instructions and parameters of this chat")
    yield build("chat-instructions", "instructions", label, "pen")
    if not chat.is_temporary:
        yield build("move-chat", "move", _("Move this chat to a project"), "folder")
        if chat.pinned_at:
            yield build("pin-chat", "unpin", _("Unpin this chat"), "pin", ("pin", "no"))
        else:
            yield build("pin-chat", "pin", _("Pin this chat"), "pin", ("pin", "yes"))
        if chat.archived_at:
            label = _("Move this chat back to the list")
            yield build("archive-chat", "unarchive", label, "archive", ("archive", "no"))
        else:
            label = _("Archive this chat")
            yield build("archive-chat", "archive", label, "archive", ("archive", "yes"))
        yield build("share-chat", "share", _("Share this chat"), "share")
    yield build("export-chat", "export", _("Export this chat"), "export")
    yield build("print-chat", "print", _("Print this chat"), "export")
    yield build("delete-chat", "delete", _("Delete this chat"), "trash", ("delete", "yes"))


def list_presses(chat: Conversation | None, *, has_box: bool) -> Iterator[Entry]:
    """Yield what the open page does when one of its own buttons is pressed. `has_box`: it has a
    message box."""
    if chat is not None:
        label = _("Rename this chat")
        yield Entry(label=label, press=".rename-button", icon="pen", keys="F2")
        last = chat.turns.order_by("-created_at").first()
        if last is not None and last.is_live:
            yield Entry(label=_("Stop the answer"), press=".stop", icon="stop", keys="Esc")
        elif _ends_with_answer(chat, last):
            press = "#thread > :last-child .regenerate"
            yield Entry(label=_("Regenerate the last answer"), press=press, icon="again")
    if has_box:
        yield Entry(label=_("Choose tools and services"), press=".tools-button button", icon="gear")
        yield Entry(label=_("Add files or resources"), press=".composer .add", icon="clip")
    label = _("Hide or show the list of chats")
    yield Entry(label=label, press=".hide-sidebar input", icon="panel", keys="Ctrl B")


def _ends_with_answer(chat: Conversation, last: Turn | None) -> bool:
    """Return whether a chat ends with an answer: that of its last turn, or a copied one."""
    if last is not None:
        return last.state == Turn.State.DONE
    shown = chat.messages.filter(is_shown=True).order_by("-created_seq")
    message = shown.first() if chat.has_copies else None
    return message is not None and message.role == Message.Role.ASSISTANT


def list_themes(person: Member) -> Iterator[Entry]:
    """Yield the themes that the person does not have."""
    address = reverse("save-appearance")
    for theme, label in (
        ("light", _("Use the light theme")),
        ("dark", _("Use the dark theme")),
        ("", _("Use the theme of the system")),
    ):
        if theme != person.theme:
            yield Entry(label=label, address=address, icon="screen", field=("theme", theme))


def list_steps() -> Iterator[Entry]:
    """Yield the steps of the picker that add to a message or change how it is answered."""
    for page, name, label, icon in (
        ("models", "model", _("Choose a model"), "spark"),
        ("tools", "tools", _("Choose tools and services"), "gear"),
        ("attach", "attach", _("Add files or resources"), "clip"),
        ("attach-saved", "prompts", _("Use a saved prompt"), "bookmark"),
    ):
        yield Entry(label=label, address=reverse(page), icon=icon, is_step=True, name=name)
