"""Who is at an admin's page."""

from django.http import Http404, HttpRequest

from chatapp.models import Member


def person_of(request: HttpRequest) -> Member:
    """The member; the admin lets nobody else in."""
    if not isinstance(request.user, Member):
        raise Http404("Nobody is signed in.")
    return request.user
