"""Filters of admin lists."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import escape
from django.utils.translation import gettext_lazy as _lazy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class HeadingMixin:
    """Gives a filter of a field a heading of its own. Django takes the label of the field."""

    heading: "StrOrPromise"
    title: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = self.heading


class EmptyChoiceMixin:
    """Names the choice of rows without a related row. Django shows its sign for empty values."""

    empty_choice: "StrOrPromise"
    empty_value_display: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.empty_value_display = escape(self.empty_choice)


class SeveralValuesFilter(admin.AllValuesFieldListFilter):
    """A filter by value. It is hidden while all rows have the same value."""

    def has_output(self) -> bool:
        return len(self.lookup_choices) > 1 or self.lookup_val is not None


class AccessFilter(HeadingMixin, admin.ChoicesFieldListFilter):
    heading = _lazy("access")
