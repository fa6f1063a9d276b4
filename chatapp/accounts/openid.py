"""The OpenID Connect and OAuth 2 clients of sign-in providers, on top of django-allauth.

django-allauth makes state and PKCE, exchanges the code and asks for the claims. Added here: the
nonce, the signature of the ID token, the comparison of its issuer and subject, and one callback
address for all kinds of providers.
"""

import secrets
import time
from typing import Any
from urllib.parse import urlsplit

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.github.provider import GitHubProvider
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2Adapter, OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

# Asymmetric only: with HS256 the published key of a provider could be used to sign.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
CLOCK_SECONDS = 60
# What a provider's answer of a wrong form raises in the libraries.
MALFORMED = (OAuth2Error, ValueError, KeyError, TypeError, AttributeError, ValidationError)
REQUIRED_CLAIMS = ["iss", "sub", "aud", "exp", "iat"]
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")


class OneCallback:
    """The callback address of a provider by its id, the same for all kinds."""

    provider_id: str

    def get_callback_url(self, request: HttpRequest, _app: Any) -> str:
        path = reverse("provider-callback", kwargs={"provider_id": self.provider_id})
        return (
            f"{settings.PUBLIC_URL}{path}"
            if settings.PUBLIC_URL
            else request.build_absolute_uri(path)
        )


class GitHubClient(OneCallback, GitHubOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    def complete_login(self, request: Any, app: Any, token: Any, **kwargs: Any) -> Any:
        login = super().complete_login(request, app, token, **kwargs)
        request.provider_claims = {}
        return login


class NamedProvider:
    """A provider that a session names by its id: two may have the same client id."""

    app: Any

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, **facts: Any
    ) -> HttpResponse:
        """Note in the state of this browser who confirms who they are, and since when."""
        if is_confirming(request, process):
            facts |= {"confirms": str(request.user.pk), "started_at": int(time.time())}
        parent: Any = super()
        answer: HttpResponse = parent.redirect(request, process, next_url, **facts)
        return answer

    def serialize(self) -> dict[str, str]:
        return {"id": self.app.provider_id, "app.client_id": self.app.client_id}

    def extract_extra_data(self, claims: dict[str, Any]) -> dict[str, Any]:
        """Return what is stored of the claims: what the settings page shows."""
        kept = ("email", "name", "login")
        return {name: str(claims[name]) for name in kept if claims.get(name)}


def is_confirming(request: HttpRequest, process: str) -> bool:
    """Whether a signed-in person signs in again, to prove who they are."""
    return process == AuthProcess.LOGIN and request.user.is_authenticated


class GitHub(NamedProvider, GitHubProvider):  # type: ignore[misc]  # django-allauth has no types
    oauth2_adapter_class = GitHubClient

    def get_oauth2_adapter(self, request: HttpRequest) -> OAuth2Adapter:
        return make_client(self, request)


class OpenIDClient(OneCallback, OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # no types
    nonce = ""
    # When the person was sent to the provider to sign in there again, or 0.
    started_at = 0

    @property
    def openid_config(self) -> Any:
        """The provider's own description, refused if it is of another issuer."""
        if not hasattr(self, "_openid_config"):
            config = super().openid_config
            issuer = self.get_provider().app.settings["server_url"]
            if str(config["issuer"]).rstrip("/") != issuer:
                raise OAuth2Error("The provider's description names another issuer.")
            is_https = urlsplit(issuer).scheme == "https"
            for name in ENDPOINTS:
                if is_https and name in config and urlsplit(config[name]).scheme != "https":
                    raise OAuth2Error(f"{name} of the provider is not encrypted.")
        return self._openid_config

    def complete_login(self, request: Any, app: Any, _token: Any, **kwargs: Any) -> Any:
        response = kwargs["response"]
        claims = self._read_id_token(app, response["id_token"])
        if "userinfo_endpoint" in self.openid_config:
            said = self._fetch_user_info(response["access_token"])
            if said.get("sub") != claims["sub"]:
                raise OAuth2Error("The provider described another person.")
            claims = {**said, **claims}
        request.provider_claims = claims
        return self.get_provider().sociallogin_from_response(request, claims)

    def _read_id_token(self, app: Any, id_token: str) -> dict[str, Any]:
        """Return the claims of a token that this provider signed for us, in answer to us."""
        try:
            claims: dict[str, Any] = jwt.decode(
                id_token,
                self._find_key(id_token),
                algorithms=ALGORITHMS,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
                leeway=CLOCK_SECONDS,
                options={"require": REQUIRED_CLAIMS},
            )
        except jwt.PyJWTError as error:
            raise OAuth2Error(f"The ID token is not valid: {error}") from error
        if claims.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("The ID token was made for another client.")
        if not self.nonce or not secrets.compare_digest(
            str(claims.get("nonce", "")).encode(), self.nonce.encode()
        ):
            raise OAuth2Error("The ID token answers another request.")
        self._check_auth_time(claims)
        return claims

    def _check_auth_time(self, claims: dict[str, Any]) -> None:
        """Refuse an old sign-in at the provider as a confirmation. Not every provider says when
        it was."""
        auth_time = claims.get("auth_time")
        if self.started_at and auth_time is not None and not is_since(auth_time, self.started_at):
            raise OAuth2Error("The provider did not ask the person to sign in again.")

    def _find_key(self, id_token: str) -> jwt.PyJWK:
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
            keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        wanted = jwt.get_unverified_header(id_token).get("kid")
        usable = [key for key in keys if key.public_key_use in (None, "sig")]
        fitting = [key for key in usable if wanted is None or key.key_id == wanted]
        if len(fitting) != 1:
            raise OAuth2Error("The ID token is signed with an unknown key.")
        return fitting[0]


def is_since(moment: Any, started_at: int) -> bool:
    """Whether a time in seconds is not before another one, but for the clocks of two machines."""
    is_time = isinstance(moment, int | float) and not isinstance(moment, bool)
    return is_time and moment >= started_at - CLOCK_SECONDS


class OpenID(NamedProvider, OpenIDConnectProvider):  # type: ignore[misc]  # django-allauth has no types
    oauth2_adapter_class = OpenIDClient

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, **_asked: Any
    ) -> HttpResponse:
        """Begin with a nonce of this browser. What the request asks for is ignored. A person who
        confirms who they are has to sign in there again, also with an open session there."""
        nonce = secrets.token_urlsafe(24)
        parameters = {**self.get_auth_params(), "nonce": nonce}
        if is_confirming(request, process):
            parameters |= {"prompt": "login", "max_age": "0"}
        answer: HttpResponse = super().redirect(
            request, process, next_url, nonce=nonce, auth_params=parameters
        )
        return answer


class CallbackView(OAuth2CallbackView):  # type: ignore[misc]  # django-allauth has no types
    """Hands the nonce of the request to the client that reads the answer."""

    def _get_state(self, request: HttpRequest, provider: Any) -> Any:
        state, problem = super()._get_state(request, provider)
        if state is not None and isinstance(self.adapter, OpenIDClient):
            self.adapter.nonce = str(state.get("nonce", ""))
            self.adapter.started_at = state.get("started_at", 0)
        return state, problem


def make_client(provider: Any, request: HttpRequest) -> OAuth2Adapter:
    """Return the client of a provider."""
    if isinstance(provider, OpenID):
        return OpenIDClient(request, provider.app.provider_id)
    client = GitHubClient(request)
    client.provider_id = provider.app.provider_id
    return client
