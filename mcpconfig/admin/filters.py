"""Filters of admin lists."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class HeadingMixin:
    """Gives a filter of a field a heading of its own. Django takes the label of the field."""

    heading: "StrOrPromise"
    title: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = self.heading
