"""What one provider declares of itself. Its SDK is imported only when a model is asked."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final

from .request import HIGHEST_TEMPERATURE, Effort
from .tools.toolbox import Dialect

MAX_FILE_BYTES: Final = 20_000_000
PDF: Final = "application/pdf"
PICTURE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningVariables:
    """The variables of a provider whose requests are signed.

    A secret key needs the id in `key_id`, and perhaps a session token. A key in `bearer` is sent as
    it is. Both need a region.
    """

    bearer: str
    key_id: str
    session_token: str
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The environment variables of one account. Of `keys`, the first that is set counts.

    `host` is the provider's own. Headers that an operator set for the provider go to this host and
    its subdomains, and to no other server that the variable `url` names.
    """

    label: str
    keys: tuple[str, ...]
    url: str
    host: str
    custom_headers: str = ""
    named_headers: Mapping[str, str] = field(default_factory=dict)
    needs_key: bool = True
    signing: SigningVariables | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The largest picture and PDF of a model, in bytes before encoding; 0 for none."""

    picture_bytes: int = 0
    document_bytes: int = 0
    picture_types: frozenset[str] = PICTURE_TYPES

    def takes(self, media_type: str, size: int) -> bool:
        return size <= self.most(media_type)

    def most(self, media_type: str) -> int:
        """Return the largest size in bytes. Text needs no ability."""
        if media_type == PDF:
            return self.document_bytes
        if media_type.startswith("image/"):
            return self.picture_bytes if media_type in self.picture_types else 0
        return MAX_FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSupport:
    """Which models read which files, by patterns at the beginning of a model's name.

    A model gets pictures unless `without_pictures` matches: it can still refuse them. It gets PDF
    only if `with_pdf` matches, because most servers refuse the whole request for a PDF.
    """

    without_pictures: re.Pattern[str] | None = None
    with_pdf: re.Pattern[str] | None = None
    picture_bytes: int = MAX_FILE_BYTES
    document_bytes: int = MAX_FILE_BYTES
    picture_types: frozenset[str] = PICTURE_TYPES

    def find_abilities(
        self, model: str, *, pictures: bool | None = None, documents: bool | None = None
    ) -> Abilities:
        """Return the abilities of a model. What is said of it counts more than its name."""
        if pictures is None:
            pictures = not (self.without_pictures and self.without_pictures.match(model))
        if documents is None:
            documents = bool(self.with_pdf and self.with_pdf.match(model))
        return Abilities(
            picture_bytes=self.picture_bytes if pictures else 0,
            document_bytes=self.document_bytes if documents else 0,
            picture_types=self.picture_types,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One way to ask for models. `kind` begins the ids of the models of the environment's account.

    `module` is the dotted path of a `ProviderModule` (`chatapp.providers.registry`). `models` maps
    the names of the usual models to labels, the one for a new chat first. `context_tokens` has the
    sizes that the provider published. `end_dates` has the dates on which it stops to serve models,
    by the beginning of their names, `exact_end_dates` by whole names.

    `embeddings` is the dotted path of an `EmbeddingModule`, empty for a provider without any, and
    `embedding_models` has the names of its usual models for them, the best known first.
    """

    kind: str
    label: str
    module: str
    dialect: Dialect | None = None
    variables: Variables | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    context_tokens: Mapping[str, int] = field(default_factory=dict)
    end_dates: Mapping[str, date] = field(default_factory=dict)
    exact_end_dates: Mapping[str, date] = field(default_factory=dict)
    files: FileSupport = FileSupport()
    embeddings: str = ""
    embedding_models: tuple[str, ...] = ()
    # What a token costs that is written into the cache of this model, as a share of one read.
    cache_write_share: Callable[[str], Decimal] = lambda model: Decimal(1)
    # Whether this model takes a temperature while it reasons with this effort. Models that choose
    # their own refuse it.
    takes_temperature: Callable[[str, Effort], bool] = lambda model, effort: True
    highest_temperature: float = HIGHEST_TEMPERATURE
    # Whether its models are in the list only where the environment names an address.
    is_for_own_servers: bool = False
