"""Sign-in by SAML: the provider's post, the end of the sign-in, and our description."""

import logging
from typing import TYPE_CHECKING, Any

from allauth.socialaccount.helpers import complete_social_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from chatapp.accounts.provider_adapter import FAILED, find_provider, render_problem
from chatapp.server.address import get_client_address
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.server.sign_in_providers import SignInProvider
from mcpconfig.values.lazy_module import LazyModule

from .providers import answer_step, get_provider

if TYPE_CHECKING:
    from chatapp.accounts import saml
else:
    saml = LazyModule("chatapp.accounts.saml")

logger = logging.getLogger(__name__)
PER_MINUTE = 120
TOO_MANY = gettext_lazy("Too many people are signing in. Try again in a moment.")


@csrf_exempt
@never_cache
@require_POST
def receive(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Check what the provider's page posts, and go on in this browser's session."""
    provider, _configured = _get_saml(request, provider_id)
    try:
        count_request("saml", get_client_address(request), PER_MINUTE)
        return saml.hold_response(request, provider.app)
    except TooManyRequests:
        return render_problem(request, TOO_MANY, 429)
    except saml.SAMLError as error:
        return _refuse(request, provider_id, error)


@never_cache
@require_GET
def finish(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Sign in, confirm or connect."""
    provider, configured = _get_saml(request, provider_id)

    def act() -> HttpResponse:
        text = saml.take_response(request)
        login = saml.build_login(request, provider, configured, text)
        answer: HttpResponse = complete_social_login(request, login)
        return answer

    try:
        return answer_step(request, provider_id, act)
    except (saml.SAMLError, PermissionDenied) as error:
        return _refuse(request, provider_id, error)


@require_GET
def metadata(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Describe this server to the provider."""
    provider, _configured = _get_saml(request, provider_id)
    return HttpResponse(saml.write_metadata(provider.app), content_type="application/xml")


def _get_saml(request: HttpRequest, provider_id: str) -> tuple[Any, SignInProvider]:
    configured = find_provider(provider_id)
    if configured is None or configured.kind != "saml":
        raise Http404
    return get_provider(request, provider_id), configured


def _refuse(request: HttpRequest, provider_id: str, error: Exception) -> HttpResponse:
    logger.warning("Provider %s sent a response that signs nobody in: %s", provider_id, error)
    return render_problem(request, FAILED, 403)
