"""The pages of django-allauth for second factors, behind our checks of access and methods.

Each is named by its path: the libraries of passkeys are imported by the first request for one.
"""

from collections.abc import Callable

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from chatapp.accounts.provider_adapter import ONLY_WAY, render_problem
from chatapp.accounts.ways_in import has_other_way_in, list_sign_in_passkeys
from chatapp.views.access import MemberRequest, for_members

PAGE = ("GET", "HEAD")
FORM = (*PAGE, "POST")
View = Callable[..., HttpResponseBase]


def _find_page(path: str) -> View:
    """Return the page at this path in `allauth.mfa`."""

    def page(request: HttpRequest, **ids: int) -> HttpResponseBase:
        view: View = import_string(f"allauth.mfa.{path}")
        return view(request, **ids)

    return page


def _protect(view: View, *methods: str) -> View:
    """Open the view to members who signed in or confirmed who they are a few minutes ago."""

    @for_members(*methods)
    def protected(request: MemberRequest, **ids: int) -> HttpResponseBase:
        raise_if_reauthentication_required(request, app="allauth.mfa")
        return view(request, **ids)

    return protected


def _remove_passkey(request: MemberRequest, pk: int) -> HttpResponseBase:
    """Remove a passkey, unless its owner must have it or could not sign in any more."""
    keys = Authenticator.objects.filter(user=request.user, type=Authenticator.Type.WEBAUTHN)
    key = get_object_or_404(keys, pk=pk)
    if request.method == "POST":
        if not get_adapter().can_delete_authenticator(key):
            return render_problem(
                request, _("You need a second factor. Add another one first."), 409
            )
        is_way_in = key in list_sign_in_passkeys(request.user)
        if is_way_in and not has_other_way_in(request.user, but=key):
            return render_problem(request, ONLY_WAY, 409)
    return _find_page("webauthn.views.remove_webauthn")(request, pk=pk)


# Signing in
enter_code: View = require_http_methods(FORM)(_find_page("base.views.authenticate"))
sign_in_by_passkey: View = require_http_methods(FORM)(_find_page("webauthn.views.login_webauthn"))
# Confirming who one is
confirm_by_code = for_members(*FORM)(_find_page("base.views.reauthenticate"))
confirm_by_passkey = for_members(*FORM)(_find_page("webauthn.views.reauthenticate_webauthn"))
# Changing the factors
set_up_app = _protect(_find_page("totp.views.activate_totp"), *FORM)
remove_app = _protect(_find_page("totp.views.deactivate_totp"), *FORM)
show_recovery_codes = _protect(_find_page("recovery_codes.views.view_recovery_codes"), *PAGE)
download_recovery_codes = _protect(
    _find_page("recovery_codes.views.download_recovery_codes"), *PAGE
)
make_recovery_codes = _protect(_find_page("recovery_codes.views.generate_recovery_codes"), *FORM)
add_passkey = _protect(_find_page("webauthn.views.add_webauthn"), *FORM)
rename_passkey = _protect(_find_page("webauthn.views.edit_webauthn"), *FORM)
remove_passkey = _protect(_remove_passkey, *FORM)
