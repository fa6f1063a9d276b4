"""The ways in which a model call fails: the kind of an error, and what a member reads about it."""

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from .account import ProviderNames
from .events import ErrorKind, ProviderError
from .refusals import read_context_limit

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MAX_SHOWN_CHARACTERS = 240
MAX_DETAIL_CHARACTERS = 4_000

CONTEXT_CODE = "context_length_exceeded"
TOO_LONG = (
    CONTEXT_CODE,
    "maximum context length",
    "exceeds the context window",
    "prompt is too long",
    "input is too long",
    "input token count",
    "exceed context limit",
    "too many tokens",
    "reduce the length of the messages",
    # llama.cpp, its Python server, LM Studio (four sentences) and Mistral.
    "exceed_context_size_error",
    "available context size",
    "exceed context window",
    "loaded with context length of only",
    "reached context length of",
    "context size has been exceeded",
    "cannot truncate prompt with n_keep",
    "too large for model with",
)
# Codes of Azure, OpenAI and gateways. The sentences are of OpenRouter and Anthropic, too.
FILTER_CODES = {
    *("content_filter", "content_policy_violation", "moderation_blocked"),
    "responsibleaipolicyviolation",
}
FILTERED = (
    "content management policy",
    "content filtering policy",
    "requires moderation",
    "input was flagged",
    "flagged as potentially violating",
    "violation of provider terms of service",
)
OUT_OF_QUOTA = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "billing_error",
    "exceeded your current quota",
    "spend_limit_reached",
)
KIND_OF_CODE: dict[str, ErrorKind] = {
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "permission_error": "auth",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "request_too_large": "too_long",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "invalid_prompt": "bad_request",
    "invalid_request_error": "bad_request",
    "timeout_error": "timeout",
    "server_error": "server",
    "api_error": "server",
    # Amazon's codes in lower case, the same in a header and in a stream.
    "accessdeniedexception": "auth",
    "expiredtokenexception": "auth",
    "invalidsignatureexception": "auth",
    "unrecognizedclientexception": "auth",
    "servicequotaexceededexception": "quota",
    "throttlingexception": "rate_limit",
    "modelnotreadyexception": "overloaded",
    "serviceunavailableexception": "overloaded",
    "validationexception": "bad_request",
    "resourcenotfoundexception": "not_found",
    "modeltimeoutexception": "timeout",
    "internalserverexception": "server",
    "modelerrorexception": "server",
    "modelstreamerrorexception": "server",
}
KIND_OF_STATUS: dict[int, ErrorKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    408: "timeout",
    413: "too_long",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


SENTENCES: dict[ErrorKind, tuple["StrOrPromise", "StrOrPromise"]] = {
    "auth": (
        gettext_lazy("%(label)s refused the key."),
        gettext_lazy("An admin can check %(key)s."),
    ),
    "quota": (
        gettext_lazy("The account at %(label)s has used up its quota or credit."),
        gettext_lazy("Choose another model. An admin can check the account’s billing."),
    ),
    "rate_limit": (
        gettext_lazy("%(label)s is rate limiting requests."),
        gettext_lazy("Try again in a moment."),
    ),
    "overloaded": (
        gettext_lazy("%(label)s is overloaded."),
        gettext_lazy("Try again in a moment, or choose another model."),
    ),
    "too_long": (
        gettext_lazy("This conversation is longer than the model can read."),
        gettext_lazy("Start a new chat, turn off some tools, or choose a model with more context."),
    ),
    "filtered": (
        gettext_lazy("A content filter of %(label)s stopped this."),
        gettext_lazy(
            "Rephrase your message, or choose another model. An admin may be able to change the "
            "filter."
        ),
    ),
    "bad_request": (
        gettext_lazy("%(label)s did not accept the request."),
        gettext_lazy("Choose another model. The log shows an admin the details."),
    ),
    "not_found": (
        gettext_lazy("%(label)s does not know this model, or the key has no access to it."),
        gettext_lazy("Choose another model. An admin can check the name and %(url)s."),
    ),
    "network": (
        gettext_lazy("The connection to %(label)s failed."),
        gettext_lazy("Try again. If it fails again, an admin can check the network and %(url)s."),
    ),
    "timeout": (
        gettext_lazy("%(label)s did not answer in time."),
        gettext_lazy("Try again, or choose another model."),
    ),
    "protocol": (
        gettext_lazy("%(label)s sent a response that was cut off or unreadable."),
        gettext_lazy("Try again. If it fails again, an admin can check %(url)s."),
    ),
    "server": (
        gettext_lazy("%(label)s returned an error."),
        gettext_lazy("Try again in a moment, or choose another model."),
    ),
}


def classify(status: int | None, codes: tuple[str, ...], text: str) -> ErrorKind:
    """Return the kind of an error, from its text, its code and then its status."""
    words = " ".join((*codes, text)).lower()
    if status is None:
        status = next((int(code) for code in codes if re.fullmatch("[1-5][0-9]{2}", code)), None)
    # In an error about rates, "too many tokens" means tokens per minute.
    is_limited = status == 429 or "throttlingexception" in codes
    if CONTEXT_CODE in words or (not is_limited and any(mark in words for mark in TOO_LONG)):
        return "too_long"
    if is_filtered(codes, words):
        return "filtered"
    if any(mark in words for mark in OUT_OF_QUOTA):
        return "quota"
    if is_limited:
        return "rate_limit"
    if "overloaded" in words and (status is None or status >= 500):
        return "overloaded"
    if status is None:
        known = (KIND_OF_CODE[code] for code in codes if code in KIND_OF_CODE)
        return next(known, "server")
    return KIND_OF_STATUS.get(status) or ("server" if status >= 500 else "bad_request")


def is_filtered(codes: tuple[str, ...], words: str) -> bool:
    """Whether the request or the answer was withheld because of its content."""
    is_named = not FILTER_CODES.isdisjoint(code.lower() for code in codes)
    return is_named or any(mark in words for mark in FILTERED)


def provider_error(
    kind: ErrorKind, names: ProviderNames, *, detail: str = "", retry_after: float | None = None
) -> ProviderError:
    """Build the error with sentences for a member.

    The provider's own text is added where it says what to change.
    """
    message, hint = SENTENCES[kind]
    words = {
        "label": names.label,
        "key": names.key_variable,
        "url": names.url_variable,
    }
    message = _capitalise(message % words)
    if (
        detail
        and kind in {"bad_request", "filtered", "not_found"}
        and len(detail) <= MAX_SHOWN_CHARACTERS
    ):
        message = _("%(message)s Details from the provider: %(detail)s") % {
            "message": message,
            "detail": detail,
        }
    return ProviderError(
        kind=kind,
        message=message,
        hint=_describe_wait(kind, retry_after) or hint % words,
        retry_after=retry_after,
        limit_tokens=read_context_limit(detail) if kind == "too_long" else None,
        detail=detail[:MAX_DETAIL_CHARACTERS],
    )


def _describe_wait(kind: ErrorKind, retry_after: float | None) -> str:
    """Return the hint of an error whose provider asks for a wait; empty without one."""
    seconds = math.ceil(retry_after) if retry_after else 0
    if not seconds or kind not in {"rate_limit", "overloaded", "server"}:
        return ""
    if kind == "rate_limit":
        said = ngettext(
            "Try again in %(count)s second.", "Try again in %(count)s seconds.", seconds
        )
    else:
        said = ngettext(
            "Try again in %(count)s second, or choose another model.",
            "Try again in %(count)s seconds, or choose another model.",
            seconds,
        )
    return said % {"count": seconds}


def _capitalise(sentence: str) -> str:
    """Capitalise the first letter and nothing else, because a label may have several words."""
    return sentence[:1].upper() + sentence[1:]


def early_end_error(names: ProviderNames) -> ProviderError:
    """Build the error of a stream without the event that ends an answer."""
    return provider_error("protocol", names, detail="the stream ended too early")


def missing_key_error(names: ProviderNames) -> ProviderError:
    return ProviderError(
        kind="auth",
        message=_("There is no key for %(label)s on this server.") % {"label": names.label},
        hint=_("Choose another model, or ask an admin to set %(key)s.")
        % {"key": names.key_variable},
    )


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a provider asked for in milliseconds, in seconds or as a date."""
    for name, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            wait = float(value) / per_second
        except ValueError:
            wait = _seconds_until(value)
        if math.isfinite(wait):
            return max(0.0, wait)
    return None


def _seconds_until(http_date: str) -> float:
    parts = email.utils.parsedate_tz(http_date)
    return email.utils.mktime_tz(parts) - time.time() if parts else math.nan
