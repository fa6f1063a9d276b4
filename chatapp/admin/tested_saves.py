"""Saves of what decides beside the rules: tools, services, groups and people. Each is made and the
policy tests are tried on what is stored then; where one newly fails, it is undone."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib import admin, messages
from django.contrib.messages.storage import default_storage
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse

from chatapp.turns.admins_word import stored_word
from chatapp.turns.policy_tests import Failing, cases, failing

from .policy_forms import sentences_of

T = TypeVar("T")


class HeldBack(Exception):
    """Nothing was saved; `sentences` say why."""

    def __init__(self, broken: list[Failing]) -> None:
        self.sentences = sentences_of(broken)
        super().__init__(" ".join(self.sentences))


def tested(save: Callable[[], T]) -> tuple[T, list[Failing]]:
    """What `save` returns, and the tests that fail since then without holding it back: nobody is
    kept from switching off a tool, a service or a person. Raises HeldBack."""
    before = {failure.test_id for failure in _failing_now()}
    with transaction.atomic():
        answer = save()
        broken = [failure for failure in _failing_now() if failure.test_id not in before]
        if holding := [failure for failure in broken if not failure.is_cut_off]:
            raise HeldBack(holding)
    return answer, broken


def _failing_now() -> list[Failing]:
    return failing(stored_word(), cases())


def say_broken(request: HttpRequest, broken: list[Failing]) -> None:
    if broken:
        said = " ".join(failure.sentence for failure in broken)
        messages.warning(request, f"Saved. These policy tests fail now: {said}")


class TestedSaves(admin.ModelAdmin):
    """A page whose save is held back so is shown again as it was typed, with the reason above."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        def opened() -> HttpResponse:
            page: HttpResponse = super(TestedSaves, self).changeform_view(
                request, object_id, form_url, extra_context
            )
            return page

        if request.method != "POST":
            return opened()
        try:
            page, broken = tested(opened)
        except HeldBack as held:
            # What was said of the save is not true of it any more.
            request._messages = default_storage(request)  # type: ignore[attr-defined]
            request.held_back = held.sentences  # type: ignore[attr-defined]
            return opened()
        say_broken(request, broken)
        return page

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        sentences = getattr(request, "held_back", ())
        return _refusing(form, sentences) if sentences else form


def _refusing(form: type[ModelForm], sentences: list[str]) -> type[ModelForm]:
    """The same form, that says this of whatever is typed into it."""

    class Refusing(form):  # type: ignore[valid-type, misc]
        def clean(self) -> Any:
            cleaned = super().clean()
            for sentence in sentences:
                self.add_error(None, sentence)
            return cleaned

    return Refusing
