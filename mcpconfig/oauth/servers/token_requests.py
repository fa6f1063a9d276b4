"""Requests to a token endpoint: how a client proves who it is, and what an answer means."""

import base64
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from jwt.exceptions import InvalidKeyError
from mcp.client.auth.extensions.client_credentials import SignedJWTParameters
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from mcpconfig.errors import OperationError

from .door import Door, unusable

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ALGORITHMS = ("RS256", "ES256", "EdDSA")


@dataclass(slots=True, kw_only=True)
class Denied(Exception):
    """The server said no, for good: asking again with the same would get the same. `code` is one
    of OAuth's error codes, or an empty text for any other."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who asks, with the secret or key that proves it."""

    client_id: str
    method: str
    secret: str
    issuer: str


async def request_token(
    door: Door, endpoint: str, client: Client, form: dict[str, str]
) -> OAuthToken:
    """The token that the endpoint gives for this. Raises Denied for a definite no, and an
    OperationError where nobody knows."""
    return _token(await request_body(door, endpoint, client, form), endpoint)


async def request_body(
    door: Door, endpoint: str, client: Client, form: dict[str, str], step: str = "oauth/token"
) -> dict[str, Any]:
    """As `request_token`, with all that the endpoint said."""
    shown, headers = await proof(client)
    answer = await door.post_form(endpoint, step, {**form, **shown}, headers)
    if answer.status in (200, 201) and answer.body is not None:
        return answer.body
    if answer.error and not answer.is_temporary and 400 <= answer.status < 500:
        raise Denied(code=answer.error if answer.error in _MEANINGS else "")
    raise OperationError(
        kind="server_error",
        message=f"{_host(endpoint)} gave no answer that can be used (HTTP {answer.status}).",
        hint="Try again later.",
        was_sent=False,
        is_definite=True,
    )


def _token(answered: dict[str, Any], endpoint: str) -> OAuthToken:
    body = dict(answered)
    token = body.get("access_token")
    # It becomes a header: what cannot be one is no token.
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        body.pop("access_token", None)
    try:
        return OAuthToken.model_validate({"token_type": "Bearer", **body})
    except ValidationError:
        raise OperationError(
            kind="protocol",
            message=f"{_host(endpoint)} gave a token of a kind that is not known here.",
            hint="Tell whoever runs the service.",
            was_sent=False,
            is_definite=True,
        ) from None


async def proof(client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """What the client adds to form and headers to show who it is."""
    match client.method:
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.secret, safe='')}"
            basic = base64.b64encode(pair.encode()).decode()
            return {"client_id": client.client_id}, {"authorization": f"Basic {basic}"}
        case "client_secret_post":
            return {"client_id": client.client_id, "client_secret": client.secret}, {}
        case "private_key_jwt":
            assertion = await _assertion(client)
            form = {"client_id": client.client_id, "client_assertion_type": ASSERTION}
            return {**form, "client_assertion": assertion}, {}
        case _:
            return {"client_id": client.client_id}, {}


async def _assertion(client: Client) -> str:
    """A signed statement of who the client is, for this one server. The kind of key decides how."""
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
    raise unusable(
        "The private key of the service's client cannot be used.",
        "Enter an unencrypted RSA, P-256 or Ed25519 key in PEM form.",
    )


_MEANINGS = {
    "access_denied": "Nothing was allowed there.",
    "invalid_client": "This application is not known there any more.",
    "unauthorized_client": "This application may not do that there.",
    "insufficient_user_authentication": "It wants a stronger sign-in for this.",
    "interaction_required": "It wants to ask you something first.",
    "invalid_grant": "The sign-in is not valid any more.",
    "invalid_scope": "A right was asked for that does not exist there.",
    "invalid_token": "The sign-in is not valid any more.",
    "login_required": "The sign-in is not valid any more.",
    "invalid_target": "It does not know this service.",
    "invalid_request": "It did not understand the request.",
    "unsupported_grant_type": "It does not offer this way to sign in.",
    "unsupported_response_type": "It does not offer this way to sign in.",
    "temporarily_unavailable": "It has too much to do just now.",
    "server_error": "Something went wrong there.",
}


def meaning(code: str) -> str:
    """An error code in words. A server's own words are never shown: anybody could have put them."""
    return _MEANINGS.get(code, "It refused.")


def _host(url: str) -> str:
    return urlsplit(url).hostname or "The server"
