"""How to reach one model provider: its address and key, from the environment or from an admin."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from chatapp.providers.failures import ProviderNames


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where requests go, with which key and headers. Equal accounts may share connections.

    `base_url` is empty for the provider's own address. `key_id`, `session_token` and `region` are
    Amazon's; a Bedrock account without a `key_id` has a bearer token as its key. `headers` go with
    every request to this account and to no other. `names` say where an admin sets what is wrong.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model that a provider says it has. Sizes are in tokens; None where it does not say."""

    name: str
    label: str = ""
    context_tokens: int | None = None
    output_tokens: int | None = None
    takes_pictures: bool | None = None
    takes_documents: bool | None = None
    reasons: bool | None = None
