"""What a server says of its models is kept where it can be true."""

import pytest

from chatapp.models import ModelProvider
from chatapp.providers.access.fetched_models import save_models
from chatapp.providers.account import ListedModel


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("said", "kept"),
    [(128_000, 128_000), (2**31 - 1, 2**31 - 1), (2**31, None), (10**30, None), (-1, None)],
)
def test_a_number_that_no_model_has_is_not_kept(said: int, kept: int | None) -> None:
    provider = ModelProvider.objects.create(slug="team", kind="openai-chat", label="Team")
    found = ListedModel(name="m", context_tokens=said, output_tokens=said, reasons=False)
    for _ in range(2):
        save_models(provider, [found], {"m"})
        model = provider.chat_models.get()
        assert (model.context_tokens, model.output_tokens, model.reasons) == (kept, kept, False)
