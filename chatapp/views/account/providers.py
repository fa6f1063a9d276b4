"""Sign-in by a provider: to the provider and back. Every failure is a page with a sentence."""

import logging
from typing import TYPE_CHECKING, Any

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import complete_social_login
from allauth.socialaccount.internal.flows.connect import disconnect as disconnect_account
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.db import DataError, IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from chatapp.accounts.provider_adapter import (
    FAILED,
    ONLY_WAY,
    UNREACHABLE,
    find_provider,
    render_problem,
)
from chatapp.accounts.second_factor import check_session
from chatapp.accounts.ways_in import has_other_way_in
from chatapp.server.address import get_own_path
from chatapp.server.sign_in_providers import find_ldap_provider
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.values.lazy_module import LazyModule

from .provider_choices import is_started_here, list_choices

if TYPE_CHECKING:
    import requests

    from chatapp.accounts import ldap_sign_in, openid
else:
    ldap_sign_in = LazyModule("chatapp.accounts.ldap_sign_in")
    openid = LazyModule("chatapp.accounts.openid")
    requests = LazyModule("requests")

logger = logging.getLogger(__name__)


@never_cache
@require_GET
def start(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Redirect to the provider. A link from another site shows a page with our own link first."""
    provider = _get_redirecting(request, provider_id)
    target = get_own_path(request.GET.get("next", ""))
    connects = request.GET.get("connect") == "1" and request.user.is_authenticated
    if not is_started_here(request):
        choices = list_choices(request, target, connects=connects)
        choice = next(each for each in choices if each.id == provider_id)
        return render(request, "sign_in/provider_start.html", {"choice": choice})
    if connects:
        if not check_session(request):
            # Who must set up a second factor gets no other way in before that.
            return redirect("second-factor")
        raise_if_reauthentication_required(request, app="allauth.socialaccount")
    process = AuthProcess.CONNECT if connects else AuthProcess.LOGIN
    return answer_step(request, provider_id, lambda: provider.redirect(request, process, target))


@never_cache
@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Read the answer of the provider, and sign in or connect."""
    provider = _get_redirecting(request, provider_id)
    if provider.id == "saml":
        raise Http404
    client = openid.make_client(provider, request)
    view = openid.CallbackView.adapter_view(client)
    return answer_step(request, provider_id, lambda: view(request))


@for_members("POST")
def disconnect(request: MemberRequest, account_id: int) -> HttpResponse:
    """Disconnect a provider, unless it is the person's last way to sign in."""
    account = get_object_or_404(SocialAccount, pk=account_id, user=request.user)
    raise_if_reauthentication_required(request, app="allauth.socialaccount")
    if not has_other_way_in(request.user, but=account):
        return render_problem(request, ONLY_WAY, 409)
    disconnect_account(request, account)
    return redirect("settings")


def get_provider(request: HttpRequest, provider_id: str) -> Any:
    if find_provider(provider_id) is None:
        raise Http404
    return get_adapter().get_provider(request, provider_id)


def _get_redirecting(request: HttpRequest, provider_id: str) -> Any:
    """Return a provider with pages of its own. Raises Http404 for another one."""
    configured = find_provider(provider_id)
    if configured is None or configured.kind == "ldap":
        raise Http404
    return get_provider(request, provider_id)


def complete_ldap_login(
    request: HttpRequest, claims: dict[str, Any], process: str, target: str = ""
) -> HttpResponse:
    """Sign in or connect the person of these claims, whose password was right."""
    configured = find_ldap_provider(settings.SIGN_IN_PROVIDERS)
    if configured is None:
        raise Http404
    provider = get_provider(request, configured.id)

    def act() -> HttpResponse:
        login = ldap_sign_in.build_login(request, provider, claims, process, target)
        answer: HttpResponse = complete_social_login(request, login)
        return answer

    return answer_step(request, configured.id, act)


def answer_step(request: HttpRequest, provider_id: str, act: Any) -> HttpResponse:
    """Return the answer of this step of a sign-in, or a page with a sentence if it failed."""
    try:
        answer: HttpResponse = act()
    except ImmediateHttpResponse as refusal:
        answer = refusal.response
    except requests.RequestException as error:
        logger.warning("Provider %s could not be reached: %s", provider_id, error)
        return render_problem(request, UNREACHABLE, 502)
    except IntegrityError:
        # The same person came twice in the same moment: the other request made the account.
        return render_problem(request, FAILED, 409)
    except (*openid.MALFORMED, DataError) as error:  # PostgreSQL refuses a value that is too long
        logger.warning("Provider %s sent a wrong answer: %s", provider_id, error)
        return render_problem(request, FAILED, 502)
    return answer
