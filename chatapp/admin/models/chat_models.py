"""Models in the admin: what each can do, what it costs, who may use it and how it is asked."""

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from chatapp.models import ChatModel
from chatapp.providers.default_models import end_of
from chatapp.turns.model_choice import abilities_of

from .provider_form import ModelForm


@admin.register(ChatModel)
class ChatModelAdmin(admin.ModelAdmin):
    form = ModelForm
    list_display = ("__str__", "chat_id", "abilities", "seen_by", "ends", "is_enabled")
    list_filter = ("provider", "is_enabled", "audience")
    list_select_related = ("provider",)
    search_fields = ("name", "label")
    actions = ("enable", "disable")
    fieldsets = (
        ("What it is", {"fields": ("provider", "name", "label", "is_enabled", "position")}),
        ("Who may use it", {"fields": ("audience", "groups")}),
        (
            "What it can do",
            {
                "fields": ("context_tokens", "output_tokens", "takes_pictures", "takes_documents")
                + ("takes_tools", "reasons")
            },
        ),
        ("How it is asked", {"fields": ("effort", "asked_tokens", "temperature", "system_prompt")}),
        (
            "What it costs",
            {
                "fields": ("input_price", "cached_price", "cache_write_price", "output_price")
                + ("currency",)
            },
        ),
    )

    @admin.display(description="Id in the chat")
    def chat_id(self, model: ChatModel) -> str:
        return model.id_in_chat

    @admin.display(description="What it can do")
    def abilities(self, model: ChatModel) -> str:
        return ", ".join(abilities_of(model)) or "–"

    @admin.display(description="For")
    def seen_by(self, model: ChatModel) -> str:
        return model.get_audience_display().lower()

    @admin.display(description="Ends")
    def ends(self, model: ChatModel) -> str:
        """When its provider said that it stops to serve it."""
        return str(end_of(model.name) or "–")

    @admin.action(description="Enable selected models", permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[ChatModel]) -> None:
        messages.success(request, f"Enabled: {_switch(chosen, is_enabled=True)}.")

    @admin.action(description="Disable selected models", permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[ChatModel]) -> None:
        messages.success(request, f"Disabled: {_switch(chosen, is_enabled=False)}.")


def _switch(chosen: QuerySet[ChatModel], *, is_enabled: bool) -> int:
    """Row by row, because the log hears of saved rows only."""
    with transaction.atomic():
        for model in chosen:
            model.is_enabled = is_enabled
            model.save(update_fields=["is_enabled"])
    return len(chosen)
