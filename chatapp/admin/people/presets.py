"""The admin of assistants and saved prompts: admins see and delete them. Of those that only their
owner can use, the texts are not shown."""

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.activity.chat_reasons import FilteredLookupsMixin
from chatapp.admin.activity.filters import PersonFilter
from chatapp.admin.badges import EMPTY
from chatapp.audit.change_entries import log_deleted_preset
from chatapp.conversations.assistant_pictures import make_data_uri
from chatapp.models import Assistant, AssistantPicture, SavedPrompt
from chatapp.models.presets.sharing import Audience, SharedRow
from mcpconfig.admin.filters import SeveralValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin


class SharedRowAdmin(FilteredLookupsMixin, ReadOnlyMixin, admin.ModelAdmin):
    """Rows that members write. Admins can delete them, with the right to."""

    # The fields with what their owner wrote.
    texts: tuple[str, ...] = ()
    list_filter = (("audience", SeveralValuesFilter), "group", PersonFilter)
    person_path = "owner"
    list_select_related = ("owner", "group")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def get_fields(self, request: HttpRequest, obj: SharedRow | None = None) -> tuple[str, ...]:
        names = ("owner", "audience", "group", "created_at", "changed_at")
        is_shared = obj is not None and obj.audience != Audience.OWNER
        return (str(self.list_display[0]), *names, *(self.texts if is_shared else ()))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the row, and log that. Its owner sees the entry."""
        with transaction.atomic():
            obj.delete()
            log_deleted_preset(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)


@admin.register(Assistant)
class AssistantAdmin(SharedRowAdmin):
    empty_list = _lazy("No assistants yet. Members create them in the chat, under “Assistants”.")
    list_display = ("name", "owner", "audience", "group", "changed_at")
    search_fields = ("name", "owner__username")
    texts = (
        *("picture_preview", "description", "model", "effort", "temperature", "output_tokens"),
        *("mode", "services", "instructions", "starters"),
    )
    readonly_fields = ("picture_preview",)

    @admin.display(description=_lazy("Picture"))
    def picture_preview(self, assistant: Assistant) -> SafeString | str:
        """Return the picture itself: its address is only for those who can use the assistant."""
        picture = AssistantPicture.objects.filter(assistant=assistant).first()
        if picture is None:
            return EMPTY
        source = make_data_uri(bytes(picture.data))
        return format_html('<img src="{}" alt="" width="96" height="96">', source)


@admin.register(SavedPrompt)
class SavedPromptAdmin(SharedRowAdmin):
    empty_list = _lazy("No saved prompts yet. Members create them under “Saved prompts”.")
    list_display = ("title", "owner", "audience", "group", "changed_at")
    search_fields = ("title", "owner__username")
    texts = ("text",)
