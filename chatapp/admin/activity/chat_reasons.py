"""The reason that an admin gives before a page of the admin shows what was said in a chat of
another person."""

from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_http_methods

from chatapp.audit import chat_access
from chatapp.models import Conversation, Member
from chatapp.people.admin_rights import VIEW_CHATS

MAX_REASON_CHARACTERS = 500
NO_RIGHT = _lazy("You don’t have the right to read other members’ chats.")


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=_lazy("Reason"),
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
        error_messages={"required": _lazy("Enter a reason.")},
    )


class FilteredLookupsMixin:
    """Allows a list no lookups but those of its filters.

    Django allows every lookup on a field of the model: `?arguments__contains=a` would find out,
    letter by letter, what a page shows only after a reason.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        page: Any = self
        named = [_name_filter(each) for each in (*page.list_filter, page.date_hierarchy) if each]
        is_of_filter = any(lookup == name or lookup.startswith(f"{name}__") for name in named)
        allowed: Any = super()
        return is_of_filter and bool(allowed.lookup_allowed(lookup, value, request))


def _name_filter(listed: Any) -> str:
    if isinstance(listed, str):
        return listed
    name = listed[0] if isinstance(listed, tuple) else listed.parameter_name
    return str(name).removesuffix("__exact")


class ReasonFirstMixin(FilteredLookupsMixin):
    """Asks for a reason before it shows an object that belongs to a chat of another person."""

    # The path from the object to its conversation's id.
    conversation_path: str

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Ask instead of showing the page. Rights were checked before, and `original` is the very
        object that would be shown, however the address named it."""
        conversation_id: Any = context["original"]
        for name in self.conversation_path.split("."):
            conversation_id = getattr(conversation_id, name)
        if asking := ask_first(request, conversation_id):
            return asking
        page: Any = super()
        response: HttpResponse = page.render_change_form(request, context, *args, **kwargs)
        return response


def ask_first(request: HttpRequest, conversation_id: UUID) -> HttpResponse | None:
    """Return a redirect to the form, or None if this admin may read the chat now. Raises
    PermissionDenied for an admin who never may."""
    reader = cast(Member, request.user)
    if chat_access.may_read(reader, conversation_id):
        return None
    if not reader.has_perm(VIEW_CHATS):
        raise PermissionDenied(NO_RIGHT)
    return redirect(make_open_address(request, conversation_id))


def make_open_address(request: HttpRequest, conversation_id: UUID) -> str:
    """Return the address of the form, which leads back to this page."""
    address = reverse("admin:chatapp_conversation_open", args=[conversation_id])
    return f"{address}?{urlencode({'next': request.get_full_path()})}"


@require_http_methods(["GET", "HEAD", "POST"])
def open_chat(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Ask why the admin opens the chat, record the reason, and lead to the page."""
    reader = cast(Member, request.user)
    if not reader.has_perm(VIEW_CHATS):
        raise PermissionDenied(NO_RIGHT)
    owner = chat_access.find_owner(conversation_id)
    target = _get_target(request, conversation_id)
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        chat_access.open_chat(reader, conversation_id, form.cleaned_data["reason"])
        return redirect(target)
    context = {
        **admin.site.each_context(request),
        "title": _("Open another member’s chat"),
        "owner": owner.name,
        "form": form,
        "next": target,
        "minutes": int(chat_access.READING_TIME.total_seconds() // 60),
        "opts": Conversation._meta,
    }
    status = 422 if request.method == "POST" else 200
    template = "admin/chatapp/conversation/open.html"
    return TemplateResponse(request, template, context, status=status)


def _get_target(request: HttpRequest, conversation_id: UUID) -> str:
    """Return the page of the admin that was asked for, or that of the chat."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if wanted.startswith(reverse("admin:index")) and url_has_allowed_host_and_scheme(wanted, None):
        return wanted
    return reverse("admin:chatapp_conversation_change", args=[conversation_id])
