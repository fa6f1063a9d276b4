"""The answer to an error that no view handled: the page of status 500, or 503 where the database is
away or refuses to write."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import requires_csrf_token
from django.views.defaults import server_error

from chatapp.journal.db_retry import DATABASE_AWAY

from .api import bearer, openai_response

RETRY_SECONDS = "5"
SENTENCE = gettext_lazy("The database is unavailable. Nothing was lost. Try again in a moment.")
CSRF_FIELD = "csrfmiddlewaretoken"
# Parts of the names of fields whose values are not written into a page.
SECRET_NAMES = ("password", "token", "secret", "key")


@requires_csrf_token
def answer_error(request: HttpRequest) -> HttpResponse:
    """Django's `handler500`. It is called while the error is being handled."""
    if not isinstance(sys.exc_info()[1], DATABASE_AWAY):
        return server_error(request)
    answer = _answer_without_database(request)
    answer["Retry-After"] = RETRY_SECONDS
    return answer


def _answer_without_database(request: HttpRequest) -> HttpResponse:
    problem = bearer.Problem(
        status=503, kind="database_away", message=_("The database is unavailable.")
    )
    if request.path.startswith("/v1/"):
        return openai_response.render_problem(problem)
    if request.path.startswith("/api/"):
        return bearer.render_problem(problem)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(SENTENCE, status=503, content_type="text/plain")
    fields = _list_fields(request)
    context = {"sentence": SENTENCE, "fields": fields, "has_files": bool(request.FILES)}
    return render(request, "503.html", context, status=503)


def _list_fields(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the fields of a form, to be sent again, or none if one of them may be a secret."""
    fields = [
        (name, str(value))
        for name, values in request.POST.lists()
        for value in values
        if name != CSRF_FIELD
    ]
    is_secret = any(word in name.lower() for name, _ in fields for word in SECRET_NAMES)
    return [] if is_secret else fields
