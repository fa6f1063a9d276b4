"""How to reach a model provider: address, key and headers."""

from dataclasses import dataclass, field
from decimal import Decimal
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNames:
    """The label of a provider in the middle of a sentence, and the variables of an admin."""

    label: str
    key_variable: str
    url_variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The destination of requests, with key and headers. Equal accounts may share connections.

    `base_url` is empty for the provider's own address. `key_id`, `session_token` and `region` are
    Amazon's. A Bedrock account without a `key_id` has a bearer token as its key. `headers` are sent
    with every request of this account and of no other. `names` are the settings that an admin can
    correct.
    """

    names: ProviderNames
    base_url: str = ""
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    key_id: str = ""
    session_token: str = field(default="", repr=False)
    region: str = ""
    is_from_environment: bool = False

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    def mask_secrets(self, text: str) -> str:
        """Return the text of a provider or its SDK without the secrets of this account."""
        headers = (value for _, value in self.headers)
        for secret in filter(None, [self.key, self.session_token, *headers]):
            text = text.replace(secret, "…")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPrice:
    """The price of a million tokens that a provider publishes, in US dollars."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model in a provider's list. Sizes are in tokens; None means that the list does not say."""

    name: str
    label: str = ""
    context_tokens: int | None = None
    output_tokens: int | None = None
    takes_pictures: bool | None = None
    takes_documents: bool | None = None
    reasons: bool | None = None
    takes_tools: bool | None = None
    price: ListedPrice | None = None
