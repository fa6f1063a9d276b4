"""The SAML 2.0 client of sign-in providers, on top of python3-saml and django-allauth.

python3-saml checks the signature, issuer and times of a response, and its audience, address and
request where it names them. Added here: the signed assertion must name all three, it must answer a
request of this browser, each request is answered once, and the same rules of admission as for other
providers. It is imported only where a provider of this kind is
configured.
"""

import binascii
import logging
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from allauth.socialaccount.providers.base import Provider, ProviderAccount
from allauth.socialaccount.sessions import LoginSession
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from lxml.etree import LxmlError
from onelogin.saml2.auth import OneLogin_Saml2_Auth
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Constants
from onelogin.saml2.errors import OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError
from onelogin.saml2.settings import OneLogin_Saml2_Settings
from onelogin.saml2.xml_utils import OneLogin_Saml2_XML

from chatapp.server.address import base_url
from chatapp.server.sign_in_providers import SignInProvider

from .openid import NamedProvider, is_confirming, is_since

logger = logging.getLogger(__name__)
MAX_CHARACTERS = 200_000
# python3-saml refuses a response with another assertion than this one.
ASSERTION = "/samlp:Response/saml:Assertion"
STATEMENTS = f"{ASSERTION}/saml:AuthnStatement"
CONFIRMATIONS = (
    f"{ASSERTION}/saml:Subject/saml:SubjectConfirmation[@Method='{Constants.CM_BEARER}']"
    "/saml:SubjectConfirmationData"
)
AUDIENCES = f"{ASSERTION}/saml:Conditions/saml:AudienceRestriction/saml:Audience"
CLAIMS = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
# Where providers say who a person is, unless the setting `attributes` names another attribute.
ATTRIBUTES = {
    "email": ("email", "mail", f"{CLAIMS}emailaddress", "urn:oid:0.9.2342.19200300.100.1.3"),
    "first_name": ("firstName", "givenName", f"{CLAIMS}givenname", "urn:oid:2.5.4.42"),
    "last_name": ("lastName", "sn", f"{CLAIMS}surname", "urn:oid:2.5.4.4"),
    "uid": ("urn:oasis:names:tc:SAML:attribute:subject-id",),
}


class SAMLError(Exception):
    """A response that signs nobody in. The text is for the log of the server."""


class SAMLRequests(Provider):  # type: ignore[misc]  # django-allauth has no types
    id = "saml"
    supports_redirect = True
    account_class = ProviderAccount

    def __init__(self, request: HttpRequest, app: Any) -> None:
        super().__init__(request, app=app)
        self.name = app.name

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, **facts: Any
    ) -> HttpResponse:
        """Begin with a request of this browser. A person who confirms who they are has to sign in
        there again."""
        auth = build_auth(self.app)
        address = auth.login(return_to="", force_authn=is_confirming(request, process))
        state_id = auth.get_last_request_id()
        self.stash_redirect_state(request, process, next_url, None, state_id=state_id, **facts)
        return HttpResponseRedirect(address)


class SAML(NamedProvider, SAMLRequests):
    """Reads claims, which are the attributes of the response by the names that allauth uses."""

    def extract_uid(self, claims: dict[str, Any]) -> str:
        return str(claims["uid"])

    def extract_common_fields(self, claims: dict[str, Any]) -> dict[str, Any]:
        names = ("email", "first_name", "last_name")
        return {name: claims[name] for name in names if claims.get(name)}


def build_auth(app: Any, response: str = "") -> OneLogin_Saml2_Auth:
    """Return the client, and what it has to read. The addresses are those of the setting, whatever
    address the request came to."""
    address = urlsplit(_build_address("saml-acs", app.provider_id))
    request = {
        "https": "on" if address.scheme == "https" else "off",
        "http_host": address.netloc,
        "script_name": address.path,
        "get_data": {},
        "post_data": {"SAMLResponse": response},
    }
    return OneLogin_Saml2_Auth(request, _build_settings(app))


def write_metadata(app: Any) -> str:
    """Return the description of this server for the provider."""
    found = OneLogin_Saml2_Settings(_build_settings(app), sp_validation_only=True)
    text: bytes | str = found.get_sp_metadata()
    return text.decode() if isinstance(text, bytes) else text


def hold_response(request: HttpRequest, app: Any) -> HttpResponse:
    """Check a response that another site posted, and hold it for the next request: browsers send
    no cookie of the session with such a post. Raises SAMLError, and then stores nothing."""
    text = request.POST.get("SAMLResponse", "")
    read_response(app, text)
    answer = HttpResponseRedirect(reverse("saml-finish", kwargs={"provider_id": app.provider_id}))
    held = LoginSession(request, "saml_response", "saml-response")
    held.store["response"] = text
    held.store.set_expiry(settings.RECENT_SIGN_IN_SECONDS)
    held.save(answer)
    return answer


def take_response(request: HttpRequest) -> str:
    """Return the held response of this browser, once."""
    held = LoginSession(request, "saml_response", "saml-response")
    text = str(held.store.get("response", ""))
    held.delete()
    return text


def read_response(app: Any, text: str) -> OneLogin_Saml2_Auth:
    """Return a response that this provider signed for us, and that is valid now. Raises
    SAMLError."""
    if not 0 < len(text) <= MAX_CHARACTERS:
        raise SAMLError("There is no response, or it is too long.")
    auth = build_auth(app, text)
    try:
        auth.process_response()
    except (OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError, LxmlError) as error:
        raise SAMLError(str(error)) from error
    except (binascii.Error, ValueError, TypeError, AttributeError, IndexError) as error:
        raise SAMLError(f"The response cannot be read: {error}") from error
    if auth.get_errors() or not auth.is_authenticated():
        raise SAMLError(f"{', '.join(auth.get_errors())}: {auth.get_last_error_reason()}")
    _check_addressee(app, auth)
    return auth


def _check_addressee(app: Any, auth: OneLogin_Saml2_Auth) -> None:
    """Refuse an assertion that does not say that it is for us, or which request it answers. The
    signature need not cover the response around it, in which anybody could write that."""
    request_id = auth.get_last_response_in_response_to()
    wanted = (_build_address("saml-acs", app.provider_id), request_id)
    named = [
        (each.get("Recipient"), each.get("InResponseTo"))
        for each in _find_elements(auth, CONFIRMATIONS)
    ]
    if not request_id or not named or any(each != wanted for each in named):
        raise SAMLError("The assertion is for another address, or answers another request.")
    if not any(each.text for each in _find_elements(auth, AUDIENCES)):
        raise SAMLError("The assertion names no audience.")


def _find_elements(auth: OneLogin_Saml2_Auth, path: str) -> list[Any]:
    root = OneLogin_Saml2_XML.to_etree(auth.get_last_response_xml())
    return list(OneLogin_Saml2_XML.query(root, path))


def build_login(request: Any, provider: SAML, configured: SignInProvider, text: str) -> Any:
    """Return the sign-in that this response is. Raises SAMLError, or PermissionDenied if it does
    not answer a request of this browser, or one that was answered before."""
    auth = read_response(provider.app, text)
    # Raises PermissionDenied without a state, and for one that is unknown or was used before.
    state = provider.unstash_redirect_state(request, auth.get_last_response_in_response_to())
    if started_at := state.get("started_at"):
        _check_instant(auth, started_at)
    claims = read_claims(auth, configured)
    request.provider_claims = claims
    login = provider.sociallogin_from_response(request, claims)
    login.state = state
    return login


def read_claims(auth: OneLogin_Saml2_Auth, configured: SignInProvider) -> dict[str, Any]:
    """Return the attributes: one value as text, several as a list; and who the person is, by the
    names `uid`, `email`, `first_name` and `last_name`."""
    given: dict[str, list[Any]] = auth.get_attributes()
    claims: dict[str, Any] = {
        name: values[0] if len(values) == 1 else values for name, values in given.items()
    }
    for name, known in ATTRIBUTES.items():
        sources = (configured.attributes[name],) if name in configured.attributes else known
        values = next((given[source] for source in sources if given.get(source)), [])
        claims[name] = str(values[0]) if values and values[0] else ""
    claims["uid"] = claims["uid"] or _read_name_id(auth)
    if not claims["email"] and auth.get_nameid_format() == Constants.NAMEID_EMAIL_ADDRESS:
        claims["email"] = auth.get_nameid()
    return claims


def _read_name_id(auth: OneLogin_Saml2_Auth) -> str:
    """Return the provider's id of the person. One for this session only names nobody."""
    name_id = auth.get_nameid()
    if not name_id or auth.get_nameid_format() == Constants.NAMEID_TRANSIENT:
        raise SAMLError("The response has no lasting id of the person.")
    return str(name_id)


def _check_instant(auth: OneLogin_Saml2_Auth, started_at: int) -> None:
    """Refuse an old sign-in at the provider as a confirmation."""
    instants = _read_instants(auth)
    if not instants or not all(is_since(each, started_at) for each in instants):
        raise SAMLError("The provider did not ask the person to sign in again.")


def _read_instants(auth: OneLogin_Saml2_Auth) -> list[float]:
    """Return when the person signed in at the provider, in seconds."""
    found = [each.get("AuthnInstant", "") for each in _find_elements(auth, STATEMENTS)]
    try:
        return [datetime.fromisoformat(each).timestamp() for each in found]
    except ValueError as error:
        raise SAMLError("The time of the sign-in cannot be read.") from error


def _build_address(name: str, provider_id: str) -> str:
    return f"{base_url()}{reverse(name, kwargs={'provider_id': provider_id})}"


def _build_settings(app: Any) -> dict[str, Any]:
    wanted = app.settings
    return {
        "strict": True,
        "security": {
            # At least one of response and assertion is signed, as python3-saml demands.
            "wantNameId": False,
            "wantAttributeStatement": False,
            "allowRepeatAttributeName": True,
            "rejectDeprecatedAlgorithm": True,
            "requestedAuthnContext": False,
            "rejectUnsolicitedResponsesWithInResponseTo": False,
            "allowSingleLabelDomains": True,
        },
        "sp": {
            "entityId": _build_address("saml-metadata", app.provider_id),
            "assertionConsumerService": {
                "url": _build_address("saml-acs", app.provider_id),
                "binding": Constants.BINDING_HTTP_POST,
            },
            "NameIDFormat": Constants.NAMEID_UNSPECIFIED,
        },
        "idp": {
            "entityId": wanted["issuer"],
            "singleSignOnService": {
                "url": wanted["sso_url"],
                "binding": Constants.BINDING_HTTP_REDIRECT,
            },
            "x509certMulti": {"signing": list(wanted["certificates"])},
        },
    }
