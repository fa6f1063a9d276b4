"""A mixin for the admin pages of records that no one may edit."""

from typing import Any

from django.http import HttpRequest


class ReadOnlyMixin:
    """Deny adding, changing and deleting in a model admin or an inline. Viewing stays allowed."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
