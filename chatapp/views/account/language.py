"""The language of a person's pages, mails and notices."""

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.models import Member
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context


@for_members("GET", "POST")
def language(request: MemberRequest) -> HttpResponse:
    """Show the page; a POST stores the choice, which the middleware repeats in the cookie."""
    if request.method == "GET":
        return _render_page(request)
    choice = request.POST.get("language", "-")
    if choice and choice not in dict(settings.LANGUAGES):
        return _render_page(request, status=422)
    Member.objects.filter(pk=request.user.pk).update(language=choice)
    request.user.language = choice
    return redirect("language")


def _render_page(request: MemberRequest, status: int = 200) -> HttpResponse:
    context = {
        "choices": [
            (code, name, code == request.user.language) for code, name in settings.LANGUAGES
        ],
        "has_problem": status != 200,
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/language.html", context, status=status)
