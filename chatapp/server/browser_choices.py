"""What a browser keeps for a year in cookies: choices that belong to it, or have to be known before
its person is."""

from django.conf import settings
from django.http import HttpResponseBase

COOKIE_SECONDS = 365 * 24 * 60 * 60


def keep_in_browser(
    response: HttpResponseBase, name: str, value: str, *, for_scripts: bool = False
) -> None:
    """Set the cookie. `for_scripts`: the page's scripts may read it."""
    response.set_cookie(
        name,
        value,
        max_age=COOKIE_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=not for_scripts,
        samesite="Lax",
    )
