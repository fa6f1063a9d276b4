"""Accounts as the environment describes them, and what of it goes to whom."""

import pytest

from chatapp.providers import environment
from chatapp.providers.events import ProviderError

from .accounts import BASE_URLS, KEYS, forget_environment

OWN_URLS = {
    "openai": "https://eu.api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
STRANGERS = [
    "https://api.openai.com.example.net/v1",
    "https://notapi.openai.com/v1",
    "http://127.0.0.1:8080/v1",
]
LINES = "X-Team: red\nnonsense\nX-Trace : on "


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_environment(monkeypatch)


def with_keys(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for name, value in ({"OPENAI_API_KEY": "sk-x"} | KEYS[kind]).items():
        monkeypatch.setenv(name, value)


def refused(kind: str) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        environment.read_account(kind)
    return raised.value


@pytest.mark.parametrize("kind", BASE_URLS)
def test_an_account_is_whole_and_says_where_it_comes_from(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with_keys(monkeypatch, kind)
    monkeypatch.setenv(BASE_URLS[kind], " http://127.0.0.1:9/x ")
    account = environment.read_account(kind)
    assert account.is_from_environment
    assert account.base_url == "http://127.0.0.1:9/x"
    assert account.key in {"sk-x", *KEYS[kind].values()}
    assert account.key not in repr(account)
    assert account.names.label == "the model server (127.0.0.1)"


@pytest.mark.parametrize("kind", BASE_URLS)
def test_without_an_address_the_provider_is_called_by_its_name(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with_keys(monkeypatch, kind)
    account = environment.read_account(kind)
    assert (account.base_url, account.names.label) == ("", environment.VARIABLES[kind].label)


@pytest.mark.parametrize("kind", BASE_URLS)
@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://x/v1", "http:///v1", "http://[x", "http://x/\x7f"]
)
def test_an_address_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, url: str
) -> None:
    with_keys(monkeypatch, kind)
    monkeypatch.setenv(BASE_URLS[kind], url)
    assert BASE_URLS[kind] in refused(kind).message


@pytest.mark.parametrize("kind", BASE_URLS)
@pytest.mark.parametrize("end", ["/?api-version=2024-10-21", "?", "#v1"])
def test_an_address_with_a_query_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, kind: str, end: str
) -> None:
    with_keys(monkeypatch, kind)
    monkeypatch.setenv(BASE_URLS[kind], f"https://x.example/openai/deployments/d{end}")
    assert f"{BASE_URLS[kind]} has a “?” or a “#”. Remove it" in refused(kind).message


@pytest.mark.parametrize(("kind", "variable"), [("google", "GEMINI_API_KEY")])
def test_a_key_that_no_header_holds_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "“quoted”")
    error = refused(kind)
    assert (error.kind, variable in error.message) == ("auth", True)
    assert "quoted" not in error.message


def test_googles_other_name_for_its_key_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENERATIVE_AI_API_KEY", "second")
    assert environment.read_account("google").key == "second"
    monkeypatch.setenv("GEMINI_API_KEY", "first")
    assert environment.read_account("google").key == "first"


@pytest.mark.parametrize("kind", ["openai", "openai-chat"])
def test_only_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    assert not environment.is_set(kind)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert environment.is_set(kind)
    assert environment.read_account(kind).key == ""


@pytest.mark.parametrize("kind", ["anthropic", "google", "bedrock"])
def test_an_address_alone_is_no_account(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv(BASE_URLS[kind], "http://127.0.0.1:9")
    assert not environment.is_set(kind)
    assert refused(kind).kind == "auth"


@pytest.mark.parametrize("kind", OWN_URLS)
@pytest.mark.parametrize("is_default", [True, False])
def test_what_is_meant_for_the_provider_goes_to_the_provider(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_default: bool
) -> None:
    with_keys(monkeypatch, kind)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv(f"{kind.upper()}_CUSTOM_HEADERS", LINES)
    if not is_default:
        monkeypatch.setenv(BASE_URLS[kind], OWN_URLS[kind])
    headers = dict(environment.read_account(kind).headers)
    assert headers.pop("OpenAI-Organization", "") == ("org-1" if kind == "openai" else "")
    assert headers == {"X-Team": "red", "X-Trace": "on"}


@pytest.mark.parametrize("kind", OWN_URLS)
@pytest.mark.parametrize("url", STRANGERS)
def test_what_is_meant_for_the_provider_goes_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch, kind: str, url: str
) -> None:
    with_keys(monkeypatch, kind)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv(f"{kind.upper()}_CUSTOM_HEADERS", LINES)
    monkeypatch.setenv(BASE_URLS[kind], url)
    assert environment.read_account(kind).headers == ()


# --- Amazon ------------------------------------------------------------------------------------
def test_amazons_keys_have_an_id_and_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys(monkeypatch, "bedrock")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    account = environment.read_account("bedrock")
    assert (account.key_id, account.session_token) == ("AKIDEXAMPLE", "token")
    assert account.region == "eu-central-1"


def test_a_bearer_token_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the SDK, where it wins. An id beside it would have it used as a secret to sign with."""
    with_keys(monkeypatch, "bedrock")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer")
    account = environment.read_account("bedrock")
    assert (account.key, account.key_id, account.session_token) == ("bearer", "", "")


def test_half_a_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert not environment.is_set("bedrock")


def test_bedrock_says_that_it_needs_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys(monkeypatch, "bedrock")
    monkeypatch.delenv("AWS_REGION")
    assert "AWS_REGION" in refused("bedrock").message
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert environment.read_account("bedrock").region == "us-west-2"


def test_an_endpoint_of_ones_own_needs_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys(monkeypatch, "bedrock")
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:9")
    assert environment.read_account("bedrock").region == environment.SIGNED_REGION
