"""Conversations with their messages, to read."""

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from chatapp.models import Conversation, Message, Part

from .badges import EMPTY
from .log import evidence_file
from .read_only import ReadOnly


class MessageInline(ReadOnly, admin.TabularInline):
    model = Message
    fields = ("created_at", "role", "said")
    readonly_fields = fields
    ordering = ("created_at",)
    extra = 0
    show_change_link = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        return (
            super().get_queryset(request).prefetch_related("parts__tool_call", "parts__attachment")
        )

    @admin.display(description="Said")
    def said(self, message: Message) -> SafeString | str:
        lines = [(part.kind, words(part)) for part in message.parts.all()]
        return format_html_join("", '<p class="part" data-kind="{}">{}</p>', lines) or EMPTY


def words(part: Part) -> str:
    """A part as one piece of text; of a tool call its name and its state, of a file its name and
    where it is from."""
    if part.tool_call is not None:
        return f"{part.tool_call.tool_id}: {part.tool_call.get_state_display()}"
    if part.kind == Part.Kind.FILE:
        return f"{part.attachment} ({part.attachment.origin})"
    return part.text


@admin.register(Conversation)
class ConversationAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("title_or_new", "owner", "model", "message_count", "active_at", "created_at")
    list_filter = ("active_at", "model")
    list_select_related = ("owner",)
    search_fields = ("title", "owner__username")
    ordering = ("-active_at",)
    date_hierarchy = "created_at"
    fields = ("title", "owner", "model", "created_at", "active_at")
    inlines = (MessageInline,)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(evidence_file)
        name = "chatapp_conversation_evidence"
        own = [path("<uuid:conversation_id>/evidence/", view, name=name)]
        return [*own, *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        found: QuerySet[Conversation] = super().get_queryset(request)
        return found.annotate(number_of_messages=Count("messages"))

    @admin.display(description="Title", ordering="title")
    def title_or_new(self, conversation: Conversation) -> str:
        return str(conversation)

    @admin.display(description="Messages", ordering="number_of_messages")
    def message_count(self, conversation: Conversation) -> int:
        count: int = getattr(conversation, "number_of_messages", 0)
        return count
