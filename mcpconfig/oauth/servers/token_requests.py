"""Requests to a token endpoint: client authentication, and the meaning of an answer."""

import base64
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from jwt.exceptions import InvalidKeyError
from mcp.client.auth.extensions.client_credentials import SignedJWTParameters
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from mcpconfig.values.errors import OperationError

from .http import OAuthHttp, sign_in_setup_error

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ALGORITHMS = ("RS256", "ES256", "EdDSA")


@dataclass(slots=True, kw_only=True)
class TokenDenied(Exception):
    """A definite refusal: the same request would be refused again. `code` is an OAuth error code,
    or empty for any other."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The client, with its secret or key."""

    client_id: str
    method: str
    secret: str
    issuer: str


async def request_token(
    http: OAuthHttp, endpoint: str, client: Client, form: dict[str, str]
) -> OAuthToken:
    """Return the token. Raises TokenDenied for a definite refusal, and OperationError if the
    outcome is unknown."""
    return _parse_token(await request_body(http, endpoint, client, form), endpoint)


async def request_body(
    http: OAuthHttp, endpoint: str, client: Client, form: dict[str, str], step: str = "oauth/token"
) -> dict[str, Any]:
    """Return the whole answer of the token endpoint; raises as `request_token` does."""
    shown, headers = await build_client_proof(client)
    answer = await http.post_form(endpoint, step, {**form, **shown}, headers)
    if answer.status in (200, 201) and answer.body is not None:
        return answer.body
    if answer.error and not answer.is_temporary and 400 <= answer.status < 500:
        raise TokenDenied(code=answer.error if answer.error in _MEANINGS else "")
    raise OperationError(
        kind="server_error",
        message=_("%(host)s sent no usable response (HTTP %(status)s).")
        % {"host": _get_host(endpoint), "status": answer.status},
        hint=_("Try again later."),
        was_sent=False,
        is_definite=True,
    )


def _parse_token(answered: dict[str, Any], endpoint: str) -> OAuthToken:
    body = dict(answered)
    token = body.get("access_token")
    # A token becomes a header, so it must be valid in one.
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        body.pop("access_token", None)
    try:
        return OAuthToken.model_validate({"token_type": "Bearer", **body})
    except ValidationError:
        raise OperationError(
            kind="protocol",
            message=_("%(host)s sent a token of an unknown type.") % {"host": _get_host(endpoint)},
            hint=_("Report it to the service’s operator."),
            was_sent=False,
            is_definite=True,
        ) from None


async def build_client_proof(client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form fields and headers that authenticate the client."""
    match client.method:
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.secret, safe='')}"
            basic = base64.b64encode(pair.encode()).decode()
            return {"client_id": client.client_id}, {"authorization": f"Basic {basic}"}
        case "client_secret_post":
            return {"client_id": client.client_id, "client_secret": client.secret}, {}
        case "private_key_jwt":
            assertion = await _sign_assertion(client)
            form = {"client_id": client.client_id, "client_assertion_type": ASSERTION}
            return {**form, "client_assertion": assertion}, {}
        case _:
            return {"client_id": client.client_id}, {}


async def _sign_assertion(client: Client) -> str:
    """Return a signed assertion of the client for this server. The kind of key decides the
    algorithm."""
    for algorithm in _ALGORITHMS:
        signing = SignedJWTParameters(
            issuer=client.client_id,
            subject=client.client_id,
            signing_key=client.secret,
            signing_algorithm=algorithm,
        )
        try:
            return await signing.create_assertion_provider()(client.issuer)
        except (InvalidKeyError, TypeError, ValueError):
            continue
    raise sign_in_setup_error(
        _("The private key of the service’s client can’t be used."),
        _("Enter an unencrypted RSA, P-256 or Ed25519 key in PEM form."),
    )


_MEANINGS = {
    "access_denied": gettext_lazy("Access was denied there."),
    "invalid_client": gettext_lazy("The server does not know this application any more."),
    "unauthorized_client": gettext_lazy("This application may not do that there."),
    "insufficient_user_authentication": gettext_lazy(
        "The server requires a stronger sign-in for this."
    ),
    "interaction_required": gettext_lazy("The server needs to ask you something first."),
    "invalid_grant": gettext_lazy("The sign-in is no longer valid."),
    "invalid_scope": gettext_lazy(
        "This application asked for a right that the server does not have."
    ),
    "invalid_token": gettext_lazy("The sign-in is no longer valid."),
    "login_required": gettext_lazy("The sign-in is no longer valid."),
    "invalid_target": gettext_lazy("The server does not know this service."),
    "invalid_request": gettext_lazy("The server did not understand the request."),
    "unsupported_grant_type": gettext_lazy("The server does not offer this way to sign in."),
    "unsupported_response_type": gettext_lazy("The server does not offer this way to sign in."),
    "temporarily_unavailable": gettext_lazy("The server is too busy now."),
    "server_error": gettext_lazy("The server returned an error."),
}


def describe_error_code(code: str) -> str:
    """Return an error code in words. A server's own message is never shown, because it is
    untrusted."""
    return str(_MEANINGS.get(code, _("The server refused.")))


def _get_host(url: str) -> str:
    return urlsplit(url).hostname or _("(unknown host)")
