"""The facts that the assistant remembers about a person: list, add, change and delete."""

from dataclasses import dataclass

from django import forms
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.conversations import memory as remembering
from chatapp.models import Memory
from chatapp.models.conversations.memory import (
    MEMORIES_PER_PERSON,
    MEMORY_CHARACTERS,
    AlreadyRemembered,
    MemoryFull,
)
from chatapp.rendering.hidden_characters import draw_look_alikes
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context

KNOWN = gettext_lazy("This memory is already saved.")
LABEL_CHARACTERS = 60


class FactForm(forms.Form):
    text = forms.CharField(
        max_length=MEMORY_CHARACTERS,
        error_messages={
            "required": gettext_lazy("Enter something to remember."),
            "max_length": gettext_lazy(
                "This memory has %(show_value)d characters. The limit is %(limit_value)d."
            ),
        },
    )

    def clean_text(self) -> str:
        return " ".join(str(self.cleaned_data["text"]).split())


def _describe_full() -> str:
    sentence = _("You have %(count)d memories, which is the limit. Delete one first.")
    return sentence % {"count": MEMORIES_PER_PERSON}


@for_members("GET", "POST")
def memory(request: MemberRequest) -> HttpResponse:
    """Show the page; a POST adds a fact."""
    if request.method == "GET":
        return _render_page(request, FactForm())
    form = FactForm(request.POST)
    if form.is_valid():
        try:
            remembering.add(request.user, form.cleaned_data["text"])
        except MemoryFull:
            form.add_error("text", _describe_full())
        except AlreadyRemembered:
            form.add_error("text", KNOWN)
        else:
            return redirect("memory")
    return _render_page(request, form, status=422)


@for_members("POST")
def change(request: MemberRequest, memory_id: int) -> HttpResponse:
    fact = Memory.of(request.user, memory_id)
    form = FactForm(request.POST)
    if form.is_valid():
        try:
            remembering.change(request.user, fact, form.cleaned_data["text"])
        except AlreadyRemembered:
            form.add_error("text", KNOWN)
        else:
            return redirect("memory")
    return _render_page(request, FactForm(), changing=fact, changed=form, status=422)


@for_members("POST")
def forget(request: MemberRequest, memory_id: int) -> HttpResponse:
    remembering.forget(request.user, Memory.of(request.user, memory_id))
    return redirect("memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactLine:
    """A fact with its hidden characters drawn; `changed` is a refused change of it."""

    fact: Memory
    text: SafeString
    label: SafeString
    chat: SafeString
    changed: FactForm | None


def _build_line(fact: Memory, changed: FactForm | None) -> FactLine:
    label = fact.text[:LABEL_CHARACTERS]
    return FactLine(
        fact=fact,
        text=draw_look_alikes(fact.text),
        label=draw_look_alikes(f"{label}…" if label != fact.text else label),
        chat=draw_look_alikes(str(fact.conversation or "")),
        changed=changed,
    )


def _render_page(
    request: MemberRequest,
    form: FactForm,
    *,
    changing: Memory | None = None,
    changed: FactForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page; `changed` is a refused change of the fact `changing`."""
    facts = Memory.objects.filter(person=request.user).select_related("conversation")
    context = {
        "form": form,
        "rows": [_build_line(fact, changed if fact == changing else None) for fact in facts],
        "most_characters": MEMORY_CHARACTERS,
        "most_facts": MEMORIES_PER_PERSON,
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/memory.html", context, status=status)
