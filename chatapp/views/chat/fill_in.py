"""Saved prompts, and starters of assistants, in the message box: a form for their variables, then
the text after what the person has typed. Nothing is sent by itself."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from chatapp.conversations.assistants import explain_bad_value
from chatapp.conversations.saved_prompts import find_prompts
from chatapp.conversations.variables import fill_variables, list_missing, list_variables
from chatapp.models import Assistant, SavedPrompt
from chatapp.models.presets.sharing import SharedRow
from chatapp.tools.catalogue import strip_hidden
from chatapp.views.access import MemberRequest, find_row, for_members
from mcpconfig.values.errors import OperationError

from . import assistant_start
from .conversations import open_draft, render_chat
from .picker import (
    VALUE_CHARACTERS,
    Field,
    append_text,
    build_problem,
    find_chat,
    read_draft,
    read_values,
    render_filled,
    render_step,
)
from .uploads import keep_files

SHOWN_PROMPTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedText:
    """A text with variables. `source` is the field of the form that names it, with its value."""

    title: str
    text: str
    source: tuple[str, str]


@for_members("POST")
def list_saved(request: MemberRequest) -> HttpResponse:
    """List the saved prompts that match the search."""
    return _render_list(request, {})


def _render_list(
    request: MemberRequest, more: dict[str, Any], problem: OperationError | None = None
) -> HttpResponse:
    query = request.POST.get("q", "")[:200].replace("\x00", "")
    found = find_prompts(request.user, query)[: SHOWN_PROMPTS + 1]
    prompts = list(found)
    context = {
        "prompts": prompts[:SHOWN_PROMPTS],
        "has_more": len(prompts) > SHOWN_PROMPTS,
        "query": query,
        "chat": find_chat(request),
        **more,
    }
    return render_step(request, "saved", context, problem)


@for_members("POST")
def show_form(request: MemberRequest) -> HttpResponse:
    """Show the form for the variables of a saved prompt, or its text if it has none."""
    saved = _find_prompt(request)
    context = _carry_draft(request) if request.POST.get("from_list") else {}
    if saved is None:
        return _render_gone(request, context)
    if list_variables(saved.text):
        return _render_form(request, saved, context)
    return _render_text(request, saved.text, context)


@for_members("POST")
def show_starter(request: MemberRequest) -> HttpResponse:
    """Show the form for the variables of a starter. Without any, put it into the message box.
    Without htmx this leaves the page and uploads the files that were chosen there."""
    _, refused = ([], None) if request.htmx else keep_files(request)
    problem = build_problem(refused.sentence) if refused else None
    saved = _find_starter(request)
    if saved is None:
        return _render_gone(request, {})
    if list_variables(saved.text):
        return _render_form(request, saved, {}, problem)
    if request.htmx:
        return _render_text(request, saved.text, {})
    text = append_text(request.POST.get("text", ""), saved.text)
    draft = read_draft(request, refused.sentence if refused else "", text)
    return render_chat(request, None, draft, refused.status if refused else 200)


@for_members("POST")
def fill(request: MemberRequest) -> HttpResponse:
    """Show the text with the values that were entered."""
    saved = _find_starter(request) if request.POST.get("starter") else _find_prompt(request)
    if saved is None:
        return _render_gone(request, {})
    names, values = list_variables(saved.text), _read_trimmed(request)
    problem = ""
    if missing := list_missing(names, values):
        problem = _("Fill in: %(fields)s.") % {"fields": ", ".join(missing)}
    for name in names:
        problem = problem or explain_bad_value(name, values.get(name, ""), VALUE_CHARACTERS)
    if problem:
        return _render_form(request, saved, {}, build_problem(problem))
    return _render_text(request, fill_variables(saved.text, values), {})


def _find_prompt(request: MemberRequest) -> SavedText | None:
    usable = SavedPrompt.filter_usable(request.user)
    prompt = find_row(usable, request.POST.get("saved", ""))
    if prompt is None:
        return None
    text = _clean_text(request, prompt, prompt.text)
    return SavedText(title=prompt.title, text=text, source=("saved", str(prompt.pk)))


def _find_starter(request: MemberRequest) -> SavedText | None:
    number = request.POST.get("starter", "")
    usable = Assistant.filter_usable(request.user)
    assistant = find_row(usable, request.POST.get("assistant", ""))
    starters = dict(enumerate(assistant.starters if assistant else (), start=1))
    text = starters.get(int(number)) if number.isdecimal() and len(number) < 3 else None
    if assistant is None or text is None:
        return None
    text = _clean_text(request, assistant, text)
    return SavedText(title=assistant.name, text=text, source=("starter", number))


def _render_gone(request: MemberRequest, context: dict[str, Any]) -> HttpResponse:
    """Show the saved prompts instead. What the person has written is carried on."""
    if "starter" in request.POST:
        sentence = _("This starter was deleted, or you can no longer use its assistant.")
    else:
        sentence = _("This prompt was deleted, or you can no longer use it.")
    return _render_list(request, context, build_problem(sentence))


def _clean_text(request: MemberRequest, row: SharedRow, text: str) -> str:
    """Return the text without characters that nobody sees, if somebody else wrote it."""
    return text if row.owner_id == request.user.pk else strip_hidden(text)


def _carry_draft(request: MemberRequest) -> dict[str, Any]:
    """Return what the forms carry where no message box sent the request: the stored draft."""
    chat = find_chat(request)
    draft = open_draft(request.user, chat)
    fields = [("chat", str(chat.pk) if chat else ""), ("text", draft.text)]
    fields += [("draft", str(draft.draft_id or ""))]
    fields += [("attachments", str(each.pk)) for each in draft.attachments]
    return {"carried": [field for field in fields if field[1]]}


def _render_form(
    request: MemberRequest,
    saved: SavedText,
    context: dict[str, Any],
    problem: OperationError | None = None,
) -> HttpResponse:
    # What the person has entered for the assistant is proposed for its starter.
    values = assistant_start.read_values(request) | _read_trimmed(request)
    fields = [
        Field(ref="", name=name, value=values.get(name, ""), is_required=True)
        for name in list_variables(saved.text)
    ]
    shown = {"saved": saved, "fields": fields}
    return render_step(request, "variables", shown | context, problem)


def _render_text(request: MemberRequest, text: str, context: dict[str, Any]) -> HttpResponse:
    carried = dict(context.get("carried", []))
    return render_filled(request, text, context, carried.get("text"))


def _read_trimmed(request: MemberRequest) -> dict[str, str]:
    """Return the values without white space around them. They are not cut, so that one which is
    too long is refused."""
    return {name: value.strip() for name, value in read_values(request, limit=None).items()}
