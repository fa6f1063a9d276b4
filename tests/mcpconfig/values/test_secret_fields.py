"""Which fields and sentences ask a person for a secret."""

from typing import Any

import pytest

from mcpconfig.values.errors import OperationError
from mcpconfig.values.questions import parse_requests
from mcpconfig.values.secret_fields import asks_for_secret, names_secret


@pytest.fixture(autouse=True)
def _database() -> None:
    """These need none."""


def ask(field: dict[str, Any], name: str = "value", message: str = "Well?") -> None:
    schema = {"type": "object", "properties": {name: field}}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    parse_requests({"key": {"method": "elicitation/create", "params": params}})


@pytest.mark.parametrize(
    ("name", "title", "description", "message"),
    [
        ("password", "", "", ""),
        ("newPassword", "", "", ""),
        ("value", "Pass\u200bword", "", ""),
        ("value", "Ｐａｓｓｗｏｒｄ", "", ""),
        ("value", "Your passphrase", "", ""),
        ("value", "Kennwort", "", ""),
        ("value", "Contraseña", "", ""),
        ("api_key", "", "", ""),
        ("value", "API-Key", "", ""),
        ("value", "APIKey", "", ""),
        ("accessToken", "", "", ""),
        ("client-secret", "", "", ""),
        ("value", "Private key", "", ""),
        ("cardNumber", "", "", ""),
        ("value", "Credit card", "", ""),
        ("value", "CVC", "", ""),
        ("value", "Value", "Enter the password of your account.", ""),
        ("value", "Value", "", "Please type your GitHub password."),
        ("value", "Value", "", "What's your card number?"),
    ],
)
@pytest.mark.parametrize("kind", ["string", "integer"])
def test_a_form_that_asks_for_a_secret_is_refused(
    kind: str, name: str, title: str, description: str, message: str
) -> None:
    """Threat: `question-for-a-secret`."""
    field = {"type": kind, "title": title or name, "description": description or "A value."}
    with pytest.raises(OperationError) as caught:
        ask(field, name, message or "Well?")
    assert caught.value.is_definite
    assert f"The service asks for “{title or name}”." in caught.value.message
    assert "Forms must not ask for passwords, API keys or card numbers" in caught.value.message


@pytest.mark.parametrize(
    "label",
    [
        "Name",
        "Number of tokens",
        "Did it pass code review?",
        "Key",
        "Card",
        "Business card text",
        "Discard number",
        "Compass word",
        "Keyboard",
        "Secretary",
    ],
)
def test_a_similar_field_is_asked(label: str) -> None:
    assert not names_secret(label)
    ask({"type": "string", "title": label})


@pytest.mark.parametrize(
    "sentence",
    ["Reset the password of Ada?", "The repository has no API key.", "Enter a name for the card."],
)
def test_a_sentence_that_only_mentions_a_secret_is_shown(sentence: str) -> None:
    assert not asks_for_secret(sentence)
    ask({"type": "string"}, message=sentence)


def test_a_choice_types_nothing() -> None:
    ask({"type": "boolean", "title": "Reset the password"}, message="Reset your password?")
    ask({"type": "string", "title": "Password", "enum": ["keep", "reset"]})
