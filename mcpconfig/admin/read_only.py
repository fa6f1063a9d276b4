"""Records that nobody edits: what services said stays as it was said."""

from typing import Any

from django.http import HttpRequest


class ReadOnly:
    """Takes every right but looking away from a model admin or an inline."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
