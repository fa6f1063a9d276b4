"""Saves that run the policy tests: of tools, services, groups and members.

A save runs in a transaction, which is rolled back if a policy test newly fails.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib import admin, messages
from django.contrib.messages.storage import default_storage
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from chatapp.policy.policy_set import load_policy_set
from chatapp.simulation.policy_tests import FailedTest, list_failing, load_cases

from .forms import describe_failing

T = TypeVar("T")


class SaveRefused(Exception):
    """A policy test would newly fail, so nothing was saved. `sentences` describe the tests."""

    def __init__(self, failing: list[FailedTest]) -> None:
        self.sentences = describe_failing(failing)
        super().__init__(" ".join(self.sentences))


def save_with_tests(save: Callable[[], T]) -> tuple[T, list[FailedTest]]:
    """Call `save`. Return its result and the tests that newly fail but do not prevent the save.

    A test that fails because its tool, service or person was disabled does not prevent the save.
    For other tests that newly fail, undo the save and raise `SaveRefused`.
    """
    before = {failure.test_id for failure in _list_failing()}
    with transaction.atomic():
        result = save()
        failing = [failure for failure in _list_failing() if failure.test_id not in before]
        if preventing := [failure for failure in failing if not failure.is_cut_off]:
            raise SaveRefused(preventing)
    return result, failing


def _list_failing() -> list[FailedTest]:
    return list_failing(load_policy_set(), load_cases())


def warn_about_failing(request: HttpRequest, failing: list[FailedTest]) -> None:
    if failing:
        sentences = " ".join(failure.sentence for failure in failing)
        messages.warning(
            request, _("Saved. These policy tests now fail: %(tests)s") % {"tests": sentences}
        )


class TestedSavesMixin(admin.ModelAdmin):
    """A model admin whose saves run the policy tests.

    If a save is refused, the form is shown again with the entered values and the failing tests.
    """

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        def call_view() -> HttpResponse:
            response: HttpResponse = super(TestedSavesMixin, self).changeform_view(
                request, object_id, form_url, extra_context
            )
            return response

        if request.method != "POST":
            return call_view()
        try:
            response, failing = save_with_tests(call_view)
        except SaveRefused as refused:
            # Discard the messages of the save, which was undone.
            request._messages = default_storage(request)  # type: ignore[attr-defined]
            request.refusal_sentences = refused.sentences  # type: ignore[attr-defined]
            return call_view()
        warn_about_failing(request, failing)
        return response

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        sentences = getattr(request, "refusal_sentences", ())
        return _add_form_errors(form, sentences) if sentences else form


def _add_form_errors(form: type[ModelForm], sentences: list[str]) -> type[ModelForm]:
    """Return a subclass of the form that always fails to validate with these errors."""

    class RefusedForm(form):  # type: ignore[valid-type, misc]
        def clean(self) -> Any:
            cleaned = super().clean()
            for sentence in sentences:
                self.add_error(None, sentence)
            return cleaned

    return RefusedForm
