"""The links “Sign in with …”.

A sign-in starts with a link, because browsers apply `form-action` to the redirects of a form, and
the addresses to which a provider redirects are unknown. The link has a word that only pages of this
browser have, so that no other site can start a sign-in.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from chatapp.server.sign_in_providers import SignInProvider

SALT = "chatapp.provider-start"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A link to a provider. One that `is_form` is signed in to by the form for passwords."""

    id: str
    name: str
    address: str
    is_form: bool = False


def list_choices(
    request: HttpRequest, target: str, *, connects: bool = False
) -> list[ProviderChoice]:
    """Return a link for each provider. `target` is the page to open afterwards."""
    if not settings.SIGN_IN_PROVIDERS:
        return []
    fields = {"next": target, "start": make_start_word(request)}
    if connects:
        fields["connect"] = "1"
    return [
        ProviderChoice(
            id=provider.id,
            name=provider.name,
            address=_find_address(provider, fields),
            is_form=provider.kind == "ldap",
        )
        for provider in settings.SIGN_IN_PROVIDERS
    ]


def _find_address(provider: SignInProvider, fields: dict[str, str]) -> str:
    if provider.kind != "ldap":
        return f"{reverse('provider-start', args=[provider.id])}?{urlencode(fields)}"
    if "connect" in fields:
        return reverse("connect-ldap")
    return f"{reverse('sign-in')}?{urlencode({'next': fields['next']})}"


def make_start_word(request: HttpRequest) -> str:
    get_token(request)
    return salted_hmac(SALT, request.META["CSRF_COOKIE"], algorithm="sha256").hexdigest()


def is_started_here(request: HttpRequest) -> bool:
    """Whether a page in this browser has the link."""
    return constant_time_compare(request.GET.get("start", ""), make_start_word(request))
