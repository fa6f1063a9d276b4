"""What the providers declare of models, by kind and name."""

from datetime import date
from decimal import Decimal

from .provider import Abilities, FileSupport
from .registry import PROVIDERS
from .request import Effort

# The models of each kind that an account of the environment offers.
DEFAULT_MODELS = {
    kind: provider.models for kind, provider in PROVIDERS.items() if provider.variables
}
# How many tokens of a request a model reads. The sizes of others show when one refuses a request.
CONTEXT_TOKENS = {
    name: size for provider in PROVIDERS.values() for name, size in provider.context_tokens.items()
}


def find_abilities(
    kind: str, model: str, *, pictures: bool | None = None, documents: bool | None = None
) -> Abilities:
    """Return which files a model takes. What is said of it counts more than its name."""
    provider = PROVIDERS.get(kind)
    files = provider.files if provider else FileSupport()
    return files.find_abilities(model, pictures=pictures, documents=documents)


def get_cache_write_share(kind: str, model: str) -> Decimal:
    """Return the cost of a token written into the cache, as a share of one read."""
    provider = PROVIDERS.get(kind)
    return provider.cache_write_share(model) if provider else Decimal(1)


def fit_temperature(kind: str, model: str, effort: Effort, temperature: float) -> float | None:
    """Return the temperature that this model takes while it reasons with this effort, at most the
    highest of its provider, or None if it takes none."""
    provider = PROVIDERS.get(kind)
    if provider is None:
        return temperature
    if not provider.takes_temperature(model, effort):
        return None
    return min(temperature, provider.highest_temperature)


def find_end_date(model: str) -> date | None:
    """Return when the provider stops to serve this model, as far as it is declared."""
    for provider in PROVIDERS.values():
        if model in provider.exact_end_dates:
            return provider.exact_end_dates[model]
        for name, end in provider.end_dates.items():
            if model.startswith(name):
                return end
    return None
