"""The pages of the chat: a new chat, a conversation, and the list of conversations beside them."""

import logging
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import Http404, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from chatapp.approvals.attention_checks import find_for_chat, render_for_chat
from chatapp.approvals.inbox import read_person_facts
from chatapp.context import attachments as attaching
from chatapp.context import summaries
from chatapp.context.projects import find_project_of
from chatapp.conversations import chat_list, drafts
from chatapp.conversations.assistants import find_assistant_of
from chatapp.live.page_facts import load_gauge, load_queue
from chatapp.live.page_view import (
    SidebarLink,
    find_later_part,
    find_part,
    load_conversation_view,
    load_projects,
    load_sidebar,
    open_conversation,
    open_version,
)
from chatapp.live.shown_cards import mark_shown_in_view
from chatapp.models import (
    Assistant,
    Attachment,
    Conversation,
    Member,
    Message,
    Summary,
    ToolCall,
    Turn,
)
from chatapp.providers.registry import DEMO_MODEL
from chatapp.rendering import page_values
from chatapp.rendering.page_values import ConversationView
from chatapp.rendering.pages import fragments, inbox
from chatapp.server.browser_choices import keep_in_browser
from chatapp.tool_menu.menu import render_button
from chatapp.views.access import MemberRequest, find_row, for_members, read_id
from mcpconfig.values.numbers import read_number

from .assistant_start import StartView, build_start_view
from .model_button import build_model_pick, list_efforts
from .project_start import ProjectStart, open_project_start

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The content of the message box. `refusal` says why it was not sent, `draft_id` is the id of
    the stored draft that it was loaded with; `start` is the assistant of a new chat, and `project`
    its project."""

    text: str = ""
    model: str = ""
    mode: str = ""
    tools: str = ""
    is_temporary: bool = False
    effort: str = ""
    refusal: str = ""
    attachments: tuple[Attachment, ...] = ()
    client_id: uuid.UUID = field(default_factory=uuid.uuid4)
    draft_id: uuid.UUID | str | None = None
    start: StartView | None = None
    project: ProjectStart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """A title that was refused, and why."""

    title: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A first message that a new chat suggests."""

    text: str
    about: str


# Read by shell.html.
SIDEBAR_COOKIE = "sidebar"
# The scripted assistant knows these texts, so they are not translated.
DEMO_STARTERS = (
    ("What notes are there?", gettext_lazy("Lists the demo notebook")),
    ("Find notes about milk and read them", gettext_lazy("Uses two tools in a row")),
    ("Create a note called Packing list", gettext_lazy("Low risk: runs without asking")),
    ("Add lemons to Groceries", gettext_lazy("Medium risk: you can allow it in advance")),
    ("Delete the note Old ideas", gettext_lazy("High risk: asks you every time")),
    ("Show me everything you can do", gettext_lazy("Shows tables, code and formulas")),
)


@for_members("GET", "HEAD")
def new_chat(request: MemberRequest) -> HttpResponse:
    if assistant_id := request.GET.get("assistant"):
        return _render_start(request, assistant_id)
    if project_id := request.GET.get("project"):
        return _render_project_start(request, project_id)
    start = request.GET.get("start", "")
    starters = dict(enumerate(_list_starters(), start=1))
    chosen = starters.get(int(start)) if start.isdecimal() and len(start) < 3 else None
    draft = Draft(text=chosen.text) if chosen else open_draft(request.user, None)
    draft = replace(draft, is_temporary=request.GET.get("temporary") == "on")
    return render_chat(request, None, draft, deleted=_find_deleted(request))


def _render_start(request: MemberRequest, assistant_id: str) -> HttpResponse:
    """Render a new chat with this assistant, and what the person has begun to write."""
    try:
        assistant = Assistant.usable_by(request.user, uuid.UUID(assistant_id))
    except ValueError:
        raise Http404("No such assistant.") from None
    start = build_start_view(request.user, assistant)
    draft = replace(
        open_draft(request.user, None),
        start=start,
        model="" if start.lacks_model else assistant.model,
        mode=assistant.mode,
        tools="" if assistant.uses_tools else "off",
        effort=assistant.effort,
    )
    return render_chat(request, None, draft)


def _render_project_start(request: MemberRequest, project_id: str) -> HttpResponse:
    """Render a new chat in this project, and what the person has begun to write."""
    start = open_project_start(request.user, project_id)
    draft = replace(
        open_draft(request.user, None),
        project=start,
        model="" if start.lacks_model else start.project.model,
        mode=start.project.mode,
    )
    return render_chat(request, None, draft)


def open_draft(person: Member, conversation: Conversation | None) -> Draft:
    """Return what this person has begun to write in this chat, or in a new one."""
    kept = drafts.find_draft(person, conversation)
    if kept is None:
        return Draft()
    files = attaching.find_drafts(person, [uuid.UUID(each) for each in kept.attachments])
    return Draft(text=kept.text, attachments=tuple(files), draft_id=kept.client_id)


def _find_deleted(request: MemberRequest) -> Conversation | None:
    """Return the chat that was just deleted, which the page offers to restore."""
    return find_row(chat_list.filter_deleted(request.user), request.GET.get("deleted", ""))


@for_members("GET", "HEAD")
def conversation(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Render the newest messages, or with `before` an older part of the conversation: the whole
    page, or for htmx its messages alone. With `version`, render a message that may be hidden, and
    what is before it."""
    if version := request.GET.get("version"):
        return _render_version(request, conversation_id, version)
    before = read_number(request.GET.get("before", ""))
    view = open_conversation(request.user, conversation_id, before)
    if before is not None:
        return _render_older_part(request, view, before)
    draft = open_draft(request.user, view.conversation) if view.has_draft else Draft()
    return render_chat(request, view.conversation, draft, view=view)


@for_members("GET")
def sidebar_list(request: MemberRequest) -> HttpResponse:
    """Return the list of conversations, which pages request regularly."""
    context = build_sidebar_context(request.user, read_open_chat(request))
    undo = read_id(request.GET.get("undo", ""))
    context["undo"] = undo and chat_list.find_just_removed(request.user, undo)
    return render(request, "chat/_sidebar_list.html", context)


def read_open_chat(request: MemberRequest) -> str:
    """Return the id of the chat that is open in the page that asks, or other text on other
    pages."""
    path = request.htmx.current_url_abs_path or ""
    return path.removeprefix("/c/").partition("/")[0]


@for_members("POST")
def hide_sidebar(request: MemberRequest) -> HttpResponse:
    """Keep in this browser whether wide windows hide the list of chats."""
    response = HttpResponse(status=204)
    state = "hidden" if request.POST.get("hidden") else "shown"
    keep_in_browser(response, SIDEBAR_COOKIE, state)
    return response


@for_members("POST")
def use_summary(request: MemberRequest, summary_id: int) -> HttpResponse:
    """Take a summary out of the context of its conversation, or use it again."""
    summary = Summary.of(request.user, summary_id)
    summaries.switch_summary(summary, is_used=request.POST.get("use") == "yes")
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("conversation", summary.conversation_id)


def _render_older_part(request: MemberRequest, view: ConversationView, before: int) -> HttpResponse:
    conversation = view.conversation
    if not view.messages:
        raise Http404("No message is that old.")
    context: dict[str, Any] = {
        "conversation": conversation,
        "view": view,
        "messages": _render_messages(view, get_token(request)),
    }
    if request.htmx:
        return render(request, "chat/_thread_part.html", context)
    context |= {
        "title": SafeString(fragments.render_title(conversation)),
        "later": find_later_part(conversation, before),
        **build_sidebar_context(request.user, str(conversation.pk)),
    }
    return render(request, "chat/older.html", context)


def _render_version(request: MemberRequest, conversation_id: uuid.UUID, given: str) -> HttpResponse:
    message_id = read_id(given)
    if message_id is None:
        raise Http404("No such message.")
    view = open_version(request.user, conversation_id, message_id)
    message = view.conversation.messages.get(pk=message_id)
    if message.is_shown:
        return redirect(build_message_address(message, page_values.message_id(message_id)))
    context: dict[str, Any] = {
        "conversation": view.conversation,
        "view": view,
        "version_of": message_id,
        "messages": _render_messages(view, get_token(request)),
        "title": SafeString(fragments.render_title(view.conversation)),
        **build_sidebar_context(request.user, str(conversation_id)),
    }
    return render(request, "chat/older.html", context)


def build_call_address(call: ToolCall) -> str:
    """Return the address of a call in its conversation, in whichever part it is."""
    return build_message_address(call.turn.answer, page_values.tool_call_id(call.pk))


def build_message_address(message: Message, element_id: str) -> str:
    """Return the address of an element of this message, in whichever part or version it is."""
    if not message.is_shown:
        part = f"?version={message.pk}"
    else:
        before = find_part(message)
        part = f"?before={before}" if before else ""
    return f"/c/{message.conversation_id}/{part}#{element_id}"


def _render_messages(view: ConversationView, token: str) -> SafeString:
    mark_shown_in_view(view)
    return SafeString("".join(fragments.render_message(each, token) for each in view.messages))


def _render_more_requests(request: MemberRequest, view: ConversationView, token: str) -> SafeString:
    """Render an attention check beside a request that waits in this chat. In others, nothing is
    looked up."""
    waits = view.live_turn is not None and view.live_turn.state == Turn.State.WAITING
    check = find_for_chat(request.user, view.conversation.pk) if waits else None
    return SafeString(render_for_chat(check, token))


def render_chat(
    request: MemberRequest,
    conversation: Conversation | None,
    draft: Draft,
    status: int = 200,
    *,
    view: ConversationView | None = None,
    renaming: Renaming | None = None,
    deleted: Conversation | None = None,
) -> HttpResponse:
    """Render the chat page: a conversation or an empty chat, with `draft` in the message box. The
    view of the conversation is loaded if it is not given. `renaming` is shown in place of the
    title, and `deleted` is a chat that the empty chat offers to restore."""
    token = get_token(request)
    chosen = draft.model or (conversation.model if conversation else "")
    pick = build_model_pick(request.user, chosen)
    is_plain_start = conversation is None and draft.start is None and draft.project is None
    shows_examples = is_plain_start and pick.chosen.id == DEMO_MODEL
    context: dict[str, Any] = {
        "conversation": conversation,
        "draft": draft,
        "renaming": renaming,
        "deleted": deleted,
        "pick": pick,
        "efforts": list_efforts(draft.effort, conversation),
        "start": draft.start,
        "project_start": draft.project,
        "starters": _list_starters() if shows_examples else (),
        "mode": SafeString(fragments.render_mode(conversation, token, draft.mode)),
        "gauge": SafeString(fragments.render_gauge(load_gauge(conversation, pick.offered))),
        "tools_button": SafeString(render_button(request.user, conversation)),
        "thread_id": page_values.THREAD_ID,
        **build_sidebar_context(request.user, str(conversation.pk) if conversation else ""),
    }
    if conversation is None:
        context["send_to"] = reverse("send-first")
        context["actions"] = SafeString(fragments.render_composer_actions(None, None))
        return render(request, "chat/page.html", context, status=status)
    view = view or load_conversation_view(conversation)
    queued = load_queue(conversation.pk) if view.has_queue else ()
    context |= {
        "view": view,
        "send_to": reverse("send", args=[conversation.pk]),
        "title": SafeString(fragments.render_title(conversation)),
        "assistant": find_assistant_of(conversation),
        "project": find_project_of(conversation),
        "messages": _render_messages(view, token),
        "more_requests": _render_more_requests(request, view, token),
        "queue": SafeString(fragments.render_queue(conversation, queued)),
        "actions": SafeString(
            fragments.render_composer_actions(conversation, view.live_turn, token)
        ),
    }
    return render(request, "chat/page.html", context, status=status)


def build_sidebar_context(
    person: Member, current: str, *, focused: uuid.UUID | None = None
) -> dict[str, Any]:
    """Return the context of the sidebar; `current` is the id of the open conversation, which counts
    as read, or of the open project. `focused` is the chat whose row takes the focus."""
    groups = load_sidebar(person)
    links = [
        (group.label, [_render_link(link, current, focused) for link in group.links])
        for group in groups
    ]
    counts = read_person_facts(person)
    projects = load_projects(person) if counts.has_projects else []
    return {
        "projects_listed": [(each, str(each.pk) == current) for each in projects],
        "groups": links,
        "focused": focused,
        "waiting": counts.waiting,
        "badge": SafeString(inbox.render_badge(counts.waiting)),
        "is_approver": counts.is_approver,
        "shows_apps": counts.has_apps,
    }


def _render_link(link: SidebarLink, current: str, focused: uuid.UUID | None) -> SafeString:
    dot, is_current = link.dot, str(link.conversation.pk) == current
    if is_current:
        _mark_read(link.conversation)
        dot = "" if dot in ("unread", "failed") else dot
    html = fragments.render_conversation_link(
        link.conversation, dot, is_current, is_focused=link.conversation.pk == focused
    )
    return SafeString(html)


def _mark_read(conversation: Conversation) -> None:
    """Mark a chat as read. Its page is also shown while the database accepts no writes."""
    try:
        chat_list.mark_read(conversation)
    except DatabaseError:
        log.warning("The chat %s could not be marked as read", conversation.pk, exc_info=True)


def _list_starters() -> tuple[Starter, ...]:
    known = DEMO_STARTERS if settings.DEMO else ()
    return tuple(Starter(text=text, about=str(about)) for text, about in known)
