"""The admin of tools: the definitions of services, read-only, and the settings of admins."""

from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.db.models import OuterRef, QuerySet, Subquery, TextField
from django.forms import BaseInlineFormSet, ModelForm, Textarea
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from mcpconfig.models import ToolDefinition, ToolSetting
from mcpconfig.services.tool_definitions import TOOL_STATES, describe_tool_state

from .big_lists import KeyedPaginator
from .display import EMPTY, render_json
from .read_only import ReadOnlyMixin

HASH_CHARACTERS = 8


@admin.register(ToolDefinition)
class ToolDefinitionAdmin(ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No tools yet. Add a service and fetch its tools.")
    list_display = ("name", "service", "state", "first_words", "is_current", "first_seen_at")
    list_filter = ("is_current", "service")
    list_select_related = ("service",)
    search_fields = ("name", "title", "description")
    paginator = KeyedPaginator
    show_facets = admin.ShowFacets.NEVER
    fields = (
        "service",
        "name",
        "title",
        "state",
        "is_current",
        "description",
        "inputs",
        "outputs",
        "claims",
        "hash",
        "first_seen_at",
    )
    readonly_fields = ("state", "inputs", "outputs", "claims")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolDefinition]:
        settings = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("name"))
        definitions: QuerySet[ToolDefinition] = super().get_queryset(request)
        return definitions.annotate(
            setting_hash=Subquery(settings.values("confirmed_hash")[:1]),
            setting_on=Subquery(settings.values("is_enabled")[:1]),
        )

    @admin.display(description=_lazy("State"))
    def state(self, definition: ToolDefinition) -> str:
        return str(TOOL_STATES[describe_tool_state(definition, _read_setting(definition))])

    @admin.display(description=_lazy("Description"))
    def first_words(self, definition: ToolDefinition) -> str:
        return definition.description.strip().split("\n", 1)[0][:100]

    @admin.display(description=_lazy("Arguments"))
    def inputs(self, definition: ToolDefinition) -> SafeString | str:
        return render_json(definition.input_schema)

    @admin.display(description=_lazy("Results"))
    def outputs(self, definition: ToolDefinition) -> SafeString | str:
        return render_json(definition.output_schema)

    @admin.display(description=_lazy("Annotations"))
    def claims(self, definition: ToolDefinition) -> SafeString | str:
        return render_json(definition.annotations)


def _read_setting(definition: Any) -> ToolSetting | None:
    """Return the setting as the list read it with the definition, in the same statement."""
    if definition.setting_on is None:
        return None
    return ToolSetting(
        name=definition.name,
        is_enabled=definition.setting_on,
        confirmed_hash=definition.setting_hash,
    )


class LabelledFormSet(BaseInlineFormSet):
    """A tabular formset whose fields have a label each, for screen readers.

    Django labels only the columns.
    """

    def add_fields(self, form: ModelForm, index: int | None) -> None:
        super().add_fields(form, index)
        for field in form.fields.values():
            if not field.widget.is_hidden:
                # A copy of Django's wrapper has the attributes of the widget that it copied.
                widget: Any = getattr(field.widget, "widget", field.widget)
                widget.attrs["aria-label"] = field.label


class PagedFormSet(LabelledFormSet):
    """Shows the rows of one page, as the parameter `page` of the address says. What the form posts
    is looked up among all rows."""

    per_page = 25
    number: str | None = None

    @cached_property
    def page(self) -> Page[Any]:
        return Paginator(super().get_queryset(), self.per_page).get_page(self.number)

    @cached_property
    def _shown(self) -> Any:
        return self.page.object_list

    def get_queryset(self) -> Any:
        return super().get_queryset() if self.is_bound else self._shown


class ToolSettingForm(ModelForm):
    """Refuses a second setting of a tool, whose first one may be on another page."""

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        same = ToolSetting.objects.filter(service=self.instance.service_id, name=name)
        if "name" in self.changed_data and same.exclude(pk=self.instance.pk).exists():
            raise ValidationError(_("This service already has settings for this tool."))
        return name


class ToolSettingInline(admin.TabularInline):
    """The settings of tools, which are bound to a name and not to a definition."""

    model = ToolSetting
    form = ToolSettingForm
    formset = PagedFormSet
    template = "admin/mcpconfig/service/_settings.html"
    ordering = ("name",)
    verbose_name_plural = _lazy("tool settings")
    fields = (
        *("name", "is_enabled", "level", "is_safe_to_repeat", "wants_review"),
        *("guidance", "short_hash"),
    )
    formfield_overrides: ClassVar = {TextField: {"widget": Textarea(attrs={"rows": 2, "cols": 20})}}
    readonly_fields = ("short_hash",)
    extra = 1

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset: Any = super().get_formset(request, obj, **kwargs)
        formset.number = request.GET.get("page")
        return formset

    @admin.display(description=_lazy("Confirmed hash"))
    def short_hash(self, setting: ToolSetting) -> str:
        """Return the beginning of the hash. The page of the definition has all of it."""
        return setting.confirmed_hash[:HASH_CHARACTERS] or EMPTY
