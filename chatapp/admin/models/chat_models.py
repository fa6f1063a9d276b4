"""The admin of chat models: capabilities, prices, audience and request settings."""

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import ChatModel
from chatapp.providers.access.model_choice import describe_abilities, format_count
from chatapp.providers.model_facts import find_end_date
from mcpconfig.admin.filters import AccessFilter

from .forms import ModelForm


@admin.register(ChatModel)
class ChatModelAdmin(admin.ModelAdmin):
    empty_list = _lazy("No models yet. Open a provider and fetch its models, or add one here.")
    form = ModelForm
    list_display = ("__str__", "chat_id", "abilities", "seen_by", "ends", "is_enabled")
    list_filter = ("provider", "is_enabled", ("audience", AccessFilter))
    list_select_related = ("provider",)
    search_fields = ("name", "label")
    actions = ("enable", "disable")
    fieldsets = (
        (_lazy("Model"), {"fields": ("provider", "name", "label", "is_enabled", "position")}),
        (_lazy("Who has access"), {"fields": ("audience", "groups")}),
        (
            _lazy("Capabilities"),
            {
                "fields": ("context_tokens", "output_tokens", "takes_pictures", "takes_documents")
                + ("takes_tools", "reasons")
            },
        ),
        (
            _lazy("Request settings"),
            {"fields": ("effort", "asked_tokens", "temperature", "system_prompt")},
        ),
        (
            _lazy("Prices"),
            {
                "fields": ("input_price", "cached_price", "cache_write_price", "output_price")
                + ("currency",)
            },
        ),
    )

    @admin.display(description=_lazy("Model ID"))
    def chat_id(self, model: ChatModel) -> str:
        return model.id_in_chat

    @admin.display(description=_lazy("Capabilities"))
    def abilities(self, model: ChatModel) -> str:
        size = model.context_tokens
        context = [_("%(count)s context") % {"count": format_count(size)}] if size else []
        return ", ".join([*describe_abilities(model), *context]) or "–"

    @admin.display(description=_lazy("Available to"))
    def seen_by(self, model: ChatModel) -> str:
        return model.get_audience_display()

    @admin.display(description=_lazy("Retires on"))
    def ends(self, model: ChatModel) -> str:
        """Return the date on which the provider retires the model, if it has announced one."""
        return str(find_end_date(model.name) or "–")

    @admin.action(description=_lazy("Enable selected models"), permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[ChatModel]) -> None:
        messages.success(
            request,
            _("Models enabled: %(number)s") % {"number": _set_enabled(chosen, is_enabled=True)},
        )

    @admin.action(description=_lazy("Disable selected models"), permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[ChatModel]) -> None:
        messages.success(
            request,
            _("Models disabled: %(number)s") % {"number": _set_enabled(chosen, is_enabled=False)},
        )


def _set_enabled(chosen: QuerySet[ChatModel], *, is_enabled: bool) -> int:
    """Save each model by itself, because `update()` sends no signal to the audit log."""
    with transaction.atomic():
        for model in chosen:
            model.is_enabled = is_enabled
            model.save(update_fields=["is_enabled"])
    return len(chosen)
