"""The admin of conversations and their messages, read-only."""

from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY
from chatapp.audit import chat_access, evidence
from chatapp.audit.admin_entries import log_download
from chatapp.models import Conversation, Message, Part, ToolCall
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.views.downloads import stream_pieces
from mcpconfig.admin.big_lists import BigListMixin, RecentValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin

from .chat_reasons import ReasonFirstMixin, ask_first, open_chat
from .filters import CreatedFilter, LastActiveFilter, PersonFilter


class MessageInline(ReadOnlyMixin, admin.TabularInline):
    model = Message
    fields = ("created_at", "role", "is_shown", "content")
    readonly_fields = fields
    ordering = ("created_at",)
    extra = 0
    show_change_link = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        return (
            super().get_queryset(request).prefetch_related("parts__tool_call", "parts__attachment")
        )

    @admin.display(description=_lazy("Content"))
    def content(self, message: Message) -> SafeString | str:
        lines = [(part.kind, describe_part(part)) for part in message.parts.all()]
        return format_html_join("", '<p class="part" data-kind="{}">{}</p>', lines) or EMPTY


def describe_part(part: Part) -> str:
    """Return a part as text: a tool call as its name and state, a file as its name and origin."""
    if part.tool_call is not None:
        return f"{part.tool_call.tool_id}: {part.tool_call.get_state_display()}"
    if part.kind == Part.Kind.COPIED_CALL:
        copied = CopiedCall.read(part.copied_call)
        return f"{copied.tool_id}: {ToolCall.State(copied.state).label}"
    if part.kind == Part.Kind.FILE:
        return f"{part.attachment} ({part.attachment.origin})"
    return part.text


@admin.register(Conversation)
class ConversationAdmin(ReasonFirstMixin, BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No chats yet. The chats of all members appear here.")
    conversation_path = "pk"
    person_path = "owner"
    person_fields = (person_path,)
    list_display = ("title_or_new", "owner", "model", "message_count", "active_at", "created_at")
    list_filter = (
        ("active_at", LastActiveFilter),
        ("created_at", CreatedFilter),
        ("model", RecentValuesFilter),
        PersonFilter,
    )
    list_select_related = ("owner",)
    search_fields = ("title", "owner__username")
    ordering = ("-active_at",)
    newest_first = ordering
    sortable_by = ("active_at",)
    fields = ("title", "owner", "model", "created_at", "active_at", "archived_at", "deleted_at")
    inlines = (MessageInline,)

    def get_urls(self) -> list[URLPattern]:
        pages = {"open": open_chat, "evidence": self.download_evidence}
        return [
            *(
                path(
                    f"<uuid:conversation_id>/{name}/",
                    self.admin_site.admin_view(view),
                    name=f"chatapp_conversation_{name}",
                )
                for name, view in pages.items()
            ),
            *super().get_urls(),
        ]

    def download_evidence(self, request: HttpRequest, conversation_id: UUID) -> HttpResponseBase:
        """Return the evidence of one conversation as a JSON file, after a reason was given."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        owner = chat_access.find_owner(conversation_id)
        if asking := ask_first(request, conversation_id):
            return asking
        log_download("", "evidence", owner, conversation_id=conversation_id)
        pieces = evidence.write_evidence(evidence.read_evidence(conversation_id))
        name = f"evidence-{conversation_id}.json"
        return stream_pieces(pieces, "application/json", name)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        conversations: QuerySet[Conversation] = super().get_queryset(request)
        messages = Message.objects.filter(conversation=OuterRef("pk")).order_by()
        counted = messages.values("conversation").annotate(number=Count("pk")).values("number")
        # Counted for the chats of one page only, and not joined to all of them.
        return conversations.annotate(number_of_messages=Coalesce(Subquery(counted), 0))

    @admin.display(description=_lazy("Title"))
    def title_or_new(self, conversation: Conversation) -> str:
        return str(conversation)

    @admin.display(description=_lazy("Messages"))
    def message_count(self, conversation: Conversation) -> int:
        count: int = getattr(conversation, "number_of_messages", 0)
        return count
