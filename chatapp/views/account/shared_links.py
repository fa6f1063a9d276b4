"""The links to chats of a person: the page of one chat that creates them, and the page of all."""

import uuid
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy

from chatapp.forms import ShareForm
from chatapp.models import Conversation, SharedLink
from chatapp.models.conversations.shared_link import SharedLinks
from chatapp.people.refused import Refused
from chatapp.sharing import links
from chatapp.sharing.tokens import build_address
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context

# Active links are all shown; of ended ones, the newest.
MAX_ENDED = 100
# What was just done, as the page says it after the redirect.
DONE = {"revoked": gettext_lazy("The link was revoked.")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLine:
    """A link as a list shows it. `is_new` was just created, `is_updated` just updated; `is_behind`:
    its chat shows something else now; `is_limited`: it is for anyone, which
    the server does not allow any more."""

    link: SharedLink
    address: str
    is_new: bool = False
    is_updated: bool = False
    is_behind: bool = False
    is_limited: bool = False


@for_members("GET", "HEAD", "POST")
def share(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Show the links to a chat; a POST creates one."""
    conversation = Conversation.of(request.user, conversation_id)
    if request.method != "POST":
        return _render_chat_page(request, conversation, ShareForm())
    form = ShareForm(request.POST)
    if not form.is_valid():
        return _render_chat_page(request, conversation, form, status=422)
    chosen = form.cleaned_data
    choices = links.Choices(
        audience=SharedLink.Audience(chosen["audience"]),
        tools=SharedLink.Tools(chosen["tools"]),
        includes_files=chosen["includes_files"],
        days=chosen["days"],
    )
    try:
        made = links.create(conversation, choices)
    except Refused as refused:
        return _render_chat_page(request, conversation, form, refused)
    address = redirect("share-chat", conversation.pk)
    address["Location"] += f"?made={made.pk}#link-{made.pk}"
    return address


@for_members("GET", "HEAD")
def shared_links(request: MemberRequest) -> HttpResponse:
    mine = SharedLink.filter_owned(request.user)
    context = {
        "open": [_build_line(each) for each in mine.live()],
        "done": DONE.get(request.GET.get("done", "")),
        **_list_ended(mine),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/shared_links.html", context)


@for_members("POST")
def update(request: MemberRequest, link_id: uuid.UUID) -> HttpResponse:
    """Let a link show the chat as it is now."""
    link = SharedLink.of(request.user, link_id)
    try:
        links.update(link)
    except Refused as refused:
        return _render_chat_page(request, link.conversation, ShareForm(), refused)
    address = redirect("share-chat", link.conversation_id)
    address["Location"] += f"?updated={link.pk}#link-{link.pk}"
    return address


@for_members("POST")
def revoke(request: MemberRequest, link_id: uuid.UUID) -> HttpResponse:
    """End a link, and go back to the page with the button: that of the chat, or of all links."""
    link = SharedLink.of(request.user, link_id)
    links.revoke(link)
    if request.POST.get("page") == "all":
        address = redirect("shared-links")
    else:
        address = redirect("share-chat", link.conversation_id)
    address["Location"] += "?done=revoked"
    return address


def _render_chat_page(
    request: MemberRequest,
    conversation: Conversation,
    form: ShareForm,
    refused: Refused | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    made, updated = request.GET.get("made", ""), request.GET.get("updated", "")
    mine = SharedLink.filter_owned(request.user).filter(conversation=conversation)
    active = list(mine.live())
    outdated = links.list_outdated(conversation, active)
    context = {
        "conversation": conversation,
        "form": form,
        "problem": refused.sentence if refused else "",
        "done": DONE.get(request.GET.get("done", "")),
        "open": [
            replace(
                _build_line(each),
                is_new=str(each.pk) == made,
                is_updated=str(each.pk) == updated,
                is_behind=each.pk in outdated,
            )
            for each in active
        ],
        **_list_ended(mine),
        **build_sidebar_context(request.user, str(conversation.pk)),
    }
    status = refused.status if refused else status
    return render(request, "chat/share.html", context, status=status)


def _build_line(link: SharedLink) -> LinkLine:
    return LinkLine(
        link=link,
        address=build_address(link.pk),
        is_limited=link.is_for_anyone and not settings.SHARE_WITH_ANYONE,
    )


def _list_ended(mine: SharedLinks) -> dict[str, Any]:
    """Return the newest of the links that have ended, and whether there are more."""
    ended = list(mine.ended()[: MAX_ENDED + 1])
    return {
        "ended": [_build_line(each) for each in ended[:MAX_ENDED]],
        "has_more_ended": len(ended) > MAX_ENDED,
    }
