"""The admin of a model with one row, which exists once it is saved."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect


class SingleRowMixin(admin.ModelAdmin):
    """Opens the form of the row instead of a list. The model has `current`, which returns the row
    or one with the defaults."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", 1)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        return self.model.current() if object_id == "1" else None

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        # The name of a row that is not read: all rows of the model have it.
        context = {"title": str(self.model()), "subtitle": None, **(extra_context or {})}
        response: HttpResponse = super().change_view(request, object_id, form_url, context)
        return response

    def response_post_save_change(self, request: HttpRequest, obj: Model) -> HttpResponseRedirect:
        return HttpResponseRedirect(request.path)
