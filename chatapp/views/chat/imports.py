"""The pages that import chats from a file of another program."""

import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Min, Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from chatapp.imports import import_acts, storing
from chatapp.imports.import_acts import MOST_SHOWN, ReceivedFile, find_open
from chatapp.models import ChatImport, ListedChat, Member
from chatapp.people.refused import Refused
from chatapp.rendering.pages.imports import describe_brought, describe_losses
from chatapp.rendering.sizes import format_size
from chatapp.rendering.stored_sentences import translate_stored
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.views.access import MemberRequest, for_members

from .conversations import build_sidebar_context
from .import_upload import ImportUpload

FIELD = "file"
CHATS_ON_A_PAGE = 100
# Of an import that is over.
CHATS_SHOWN = 10
State = ChatImport.State


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """A chat of the file as the page shows it."""

    chat: ListedChat
    problem: str
    brought: list[str]
    losses: list[str]


@csrf_exempt
@for_members("GET", "HEAD", "POST")
def imports(request: MemberRequest) -> HttpResponse:
    """Show the imports of the person; a POST begins one with a file. The handler of the file has
    to be there before the token of the form is read."""
    request.upload_handlers = [ImportUpload(request)]
    response: HttpResponse = _show_or_begin(request)
    return response


@csrf_protect
def _show_or_begin(request: MemberRequest) -> HttpResponse:
    if request.method != "POST":
        return _render_imports(request)
    files = request.FILES.getlist(FIELD)
    try:
        if not files:
            raise Refused(_("Choose a file first."))
        _count_upload(request.user)
        file: Any = files[0]
        received = ReceivedFile(name=file.name or "", size=file.size or 0, data=file)
        begun = import_acts.begin(request.user, received)
    except Refused as refused:
        return refused.set_retry(_render_imports(request, refused))
    return redirect("import", begun.pk)


def _count_upload(person: Member) -> None:
    try:
        count_request("uploads", str(person.pk), settings.UPLOADS_PER_MINUTE)
    except TooManyRequests as error:
        sentence = " ".join([_("You added too many files within a minute."), error.hint])
        raise Refused(sentence, 429, error.wait_seconds) from None


@for_members("GET", "HEAD", "POST")
def show_import(request: MemberRequest, import_id: uuid.UUID) -> HttpResponse:
    """Show how far an import is, and the chats to choose from. A POST saves the choice of this page
    of them, and then does what its button says."""
    chat_import = ChatImport.of(request.user, import_id)
    if request.method != "POST":
        return _render_import(request, chat_import)
    act = request.POST.get("do", "")
    try:
        _save_choice(request, chat_import)
        if act == "import":
            import_acts.start(chat_import)
        elif act in ("all", "none"):
            import_acts.select_all(chat_import, is_on=act == "all")
    except Refused as refused:
        return _render_import(request, chat_import, refused)
    address = redirect("import", chat_import.pk)
    page = act.removeprefix("page-") if act.startswith("page-") else request.POST.get("page", "")
    if act != "import" and _read_number(page) > 1:
        address["Location"] += f"?page={_read_number(page)}"
    return address


@for_members("POST")
def discard(request: MemberRequest, import_id: uuid.UUID) -> HttpResponse:
    """Forget a file of which nothing was imported."""
    chat_import = ChatImport.of(request.user, import_id)
    try:
        import_acts.discard(chat_import)
    except Refused as refused:
        return _render_import(request, chat_import, refused)
    return redirect("imports")


@for_members("POST")
def undo(request: MemberRequest, import_id: uuid.UUID) -> HttpResponse:
    """Delete the imported chats in which the person did not go on."""
    chat_import = ChatImport.of(request.user, import_id)
    storing.undo(chat_import)
    return redirect("import", chat_import.pk)


def _save_choice(request: MemberRequest, chat_import: ChatImport) -> None:
    shown = list(map(_read_number, request.POST.getlist("shown")))
    chosen = list(map(_read_number, request.POST.getlist("chat")))
    import_acts.select(chat_import, shown, chosen)


def _read_number(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal() or len(text) > 9:
        raise Http404("No such chat.")
    return int(text)


def _render_imports(request: MemberRequest, problem: Refused | None = None) -> HttpResponse:
    ended = ChatImport.objects.filter(person=request.user).exclude(state__in=ChatImport.OPEN)
    context = {
        "open": find_open(request.user),
        "ended": ended[:MOST_SHOWN],
        "most": format_size(settings.IMPORT_MAX_BYTES),
        "problem": problem,
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/imports.html", context, status=problem.status if problem else 200)


def _render_import(
    request: MemberRequest, chat_import: ChatImport, problem: Refused | None = None
) -> HttpResponse:
    context: dict[str, Any] = {
        "import": chat_import,
        "size": format_size(chat_import.size),
        "problem": problem,
    }
    match chat_import.state:
        case State.READY:
            page = _read_number(request.GET.get("page") or request.POST.get("page", ""))
            context |= _build_preview(chat_import, max(page, 1))
        case State.DONE:
            context |= _build_result(chat_import)
    status = problem.status if problem else 200
    if request.htmx and request.method == "GET":
        return render(request, "chat/_import_state.html", context)
    context |= build_sidebar_context(request.user, "")
    return render(request, "chat/import.html", context, status=status)


def _build_preview(chat_import: ChatImport, page: int) -> dict[str, Any]:
    facts = chat_import.chats.aggregate(
        count=Count("pk"),
        selected=Count("pk", filter=Q(is_selected=True)),
        known=Count("pk", filter=~Q(twin=None)),
        first=Min("begun_at"),
        last=Max("active_at"),
    )
    pages = max(1, -(-facts["count"] // CHATS_ON_A_PAGE))
    page = min(page, pages)
    rows = chat_import.chats.select_related("twin").order_by("-active_at", "number")
    start = (page - 1) * CHATS_ON_A_PAGE
    losses: Counter[str] = Counter()
    for each in chat_import.chats.filter(problem="").values_list("losses", flat=True):
        losses.update(each)
    return {
        "facts": facts,
        "brought": describe_brought(losses),
        "losses": describe_losses(losses),
        "lines": [_build_line(each) for each in rows[start : start + CHATS_ON_A_PAGE]],
        "page": page,
        "pages": pages,
    }


def _build_line(chat: ListedChat) -> ChatLine:
    return ChatLine(
        chat=chat,
        problem=translate_stored(chat.problem),
        brought=describe_brought(chat.losses),
        losses=describe_losses(chat.losses),
    )


def _build_result(chat_import: ChatImport) -> dict[str, Any]:
    stored = chat_import.chats.filter(conversation__deleted_at=None, conversation__isnull=False)
    missed = chat_import.chats.filter(conversation=None, is_selected=True).count()
    return {
        "stored": stored.select_related("conversation").order_by("-active_at")[:CHATS_SHOWN],
        "continued": storing.filter_continued(chat_import).count(),
        "missed": missed,
    }
