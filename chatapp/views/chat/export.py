"""A chat as a file to download, and as a page to print."""

import io
import re
import unicodedata
import uuid
import zipfile
from collections.abc import Callable, Iterable

from django import forms
from django.conf import settings
from django.http import Http404, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.conversations.exports import open_export
from chatapp.live.page_view import open_conversation
from chatapp.models import Conversation
from chatapp.people.refused import Refused
from chatapp.rendering.exports.json_file import write_json
from chatapp.rendering.exports.markdown_file import write_markdown
from chatapp.rendering.exports.values import ExportedChat, ToolDetail
from chatapp.rendering.pages import fragments
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.downloads import build_download
from mcpconfig.values.numbers import read_number

from .conversations import build_sidebar_context

# A longer chat is printed in parts.
PRINTED_MESSAGES = 1_000
WRITERS: dict[str, Callable[[ExportedChat], str]] = {
    "markdown": write_markdown,
    "json": write_json,
}
CONTENT_TYPES = {
    "markdown": "text/markdown; charset=utf-8",
    "json": "application/json; charset=utf-8",
}
SUFFIXES = {"markdown": "md", "json": "json"}
MAX_NAME_CHARACTERS = 80
# The only `<details>` in a fragment are ours, as all text in it is escaped.
FOLDED = re.compile(r"<details(?![^>]*\sopen\b)")


class ExportForm(forms.Form):
    format = forms.ChoiceField(
        label=gettext_lazy("Format"),
        initial="markdown",
        widget=forms.RadioSelect,
        choices=[
            ("markdown", gettext_lazy("Markdown: the versions that the chat shows, to read")),
            ("json", gettext_lazy("JSON: all versions, for programs")),
        ],
    )
    tools = forms.ChoiceField(
        label=gettext_lazy("Include tool calls"),
        initial=ToolDetail.OUTCOMES.value,
        widget=forms.RadioSelect,
        choices=[
            (ToolDetail.NONE.value, gettext_lazy("No tool calls")),
            (ToolDetail.OUTCOMES.value, gettext_lazy("Names and outcomes")),
            (ToolDetail.FULL.value, gettext_lazy("With arguments and results")),
        ],
    )


@for_members("GET", "HEAD")
def export(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Show the choices, or with a `format` send the file."""
    conversation = Conversation.of(request.user, conversation_id)
    form = ExportForm(request.GET if "format" in request.GET else None)
    if form.is_valid():
        detail = ToolDetail(form.cleaned_data["tools"])
        return _build_file(request, conversation, form.cleaned_data["format"], detail)
    context = {
        "conversation": conversation,
        "form": form,
        **build_sidebar_context(request.user, str(conversation_id)),
    }
    status = 422 if form.is_bound else 200
    return render(request, "chat/export.html", context, status=status)


def _build_file(
    request: MemberRequest, conversation: Conversation, kind: str, detail: ToolDetail
) -> HttpResponse:
    name = f"{build_file_name(conversation)}.{SUFFIXES[kind]}"
    return build_download(_write(request, conversation, kind, detail), CONTENT_TYPES[kind], name)


def build_archive(request: MemberRequest, conversations: Iterable[Conversation]) -> HttpResponse:
    """Return a ZIP file with these chats of the person as Markdown, with the names and outcomes of
    tool calls. Chats of the same name are numbered, and chats that are gone meanwhile left out.
    Raises Refused if none is left."""
    archive, names = io.BytesIO(), set[str]()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for conversation in conversations:
            try:
                text = _write(request, conversation, "markdown", ToolDetail.OUTCOMES)
            except Http404:
                continue
            name = base = build_file_name(conversation)
            number = 1
            while name.casefold() in names:
                number += 1
                name = f"{base} ({number})"
            names.add(name.casefold())
            file.writestr(f"{name}.md", text)
    if not names:
        raise Refused(_("These chats are gone."))
    day = f"{timezone.localdate():%Y-%m-%d}"
    return build_download(archive.getvalue(), "application/zip", f"{_('Chats')} {day}.zip")


def _write(
    request: MemberRequest, conversation: Conversation, kind: str, detail: ToolDetail
) -> bytes:
    address = settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
    opened = open_export(request.user, conversation.pk, detail, address, is_whole=kind == "json")
    with opened as chat:
        # A lone surrogate, which UTF-8 cannot have, is written as in JSON.
        return WRITERS[kind](chat).encode("utf-8", "backslashreplace")


def build_file_name(conversation: Conversation) -> str:
    """Return the letters and digits of the title and the day, which any file system accepts. The
    day also keeps the name apart from names that Windows reserves."""
    kept = [each if unicodedata.category(each)[0] in "LMN" else " " for each in str(conversation)]
    words = " ".join("".join(kept).split())[:MAX_NAME_CHARACTERS]
    return f"{words} {timezone.localdate():%Y-%m-%d}".strip()


@for_members("GET", "HEAD")
def print_chat(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Render a chat with everything unfolded and without what only a screen needs; with `before`,
    the part of a very long chat that is older than this frame."""
    before = read_number(request.GET.get("before", ""))
    view = open_conversation(request.user, conversation_id, before, PRINTED_MESSAGES)
    if before is not None and not view.messages:
        raise Http404("No message is that old.")
    token = get_token(request)
    messages = "".join(fragments.render_message(each, token) for each in view.messages)
    context = {
        "conversation": view.conversation,
        "view": view,
        "messages": SafeString(FOLDED.sub("<details open", messages)),
        "most": PRINTED_MESSAGES,
    }
    return render(request, "chat/print.html", context)
