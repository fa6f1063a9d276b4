"""Drafts of providers: what an admin typed on the page *Add a provider*. Secrets are sealed."""

import json
from typing import Any

from django.http import QueryDict

from chatapp.models import ModelProvider, ProviderDraft
from chatapp.providers.account import Account
from mcpconfig.secrets import encryption
from mcpconfig.values.results import make_storable

from .accounts import build_own_account
from .fetched_models import find_free_slug
from .provider_check import CheckReport, Sample

SECRETS = ("key", "headers")
FIELDS = ("label", "slug", "kind", "base_url", "region", "key_place", "key_id")
CHOICES = ("access", "sample_model", "more_models", "currency")
MAX_CHARACTERS = 4_000


def keep_typed(draft: ProviderDraft, posted: QueryDict) -> None:
    """Keep what was typed. Secrets that were typed for another address or kind are deleted, so they
    are never sent there. A changed account has to be checked again."""
    before = draft.typed
    names = (*FIELDS, *CHOICES)
    given = {name: str(posted.get(name, before.get(name, ""))) for name in names}
    typed: dict[str, Any] = make_storable(
        {name: text[:MAX_CHARACTERS].strip() for name, text in given.items()}
    )
    # The names of models are chosen on a later part of the page.
    ticked = posted.getlist("model") if "models_shown" in posted else before.get("ticked", [])
    groups = posted.getlist("groups") if "models_shown" in posted else before.get("groups", [])
    prices = {
        name: str(text).strip()[:20]
        for name in posted
        if name.startswith(("input_price:", "output_price:")) and (text := posted[name])
    }
    typed |= make_storable({"ticked": ticked, "groups": groups, "prices": prices})
    if not typed["slug"] and typed["label"]:
        typed["slug"] = find_free_slug(typed["label"])
    target = f"{typed['kind']} {typed['base_url']}"
    kept = open_secrets(draft) if target == draft.secrets_for else {}
    sent = {name: str(posted[name]) for name in SECRETS if posted.get(name)}
    if sent or any(typed[name] != before.get(name) for name in FIELDS[2:]):
        draft.report = None
    draft.typed, draft.secrets_for = typed, target
    seal_secrets(draft, kept | sent)


def seal_secrets(draft: ProviderDraft, secrets: dict[str, str]) -> None:
    """Put the secrets into the row, which the caller saves."""
    sealed = encryption.encrypt(json.dumps(secrets), place=_build_place(draft)) if secrets else b""
    draft.secrets = sealed


def open_secrets(draft: ProviderDraft) -> dict[str, str]:
    """Return the secrets; none if no known key opens them, so that they are typed again."""
    if not draft.secrets:
        return {}
    try:
        opened = encryption.decrypt(bytes(draft.secrets), place=_build_place(draft))
    except encryption.DecryptionError:
        return {}
    secrets: dict[str, str] = json.loads(opened)
    return secrets


def _build_place(draft: ProviderDraft) -> str:
    return f"chatapp_providerdraft:{draft.pk}:secrets"


def build_draft_account(draft: ProviderDraft, headers: dict[str, str]) -> Account:
    """Return the account of the draft. Raise ProviderError for what is missing."""
    typed = draft.typed
    row = ModelProvider(**{name: typed[name] for name in FIELDS})
    row.label = row.label or row.get_kind_display()
    stored = row.key_place == ModelProvider.KeyPlace.STORED
    return build_own_account(row, open_secrets(draft).get("key", "") if stored else "", headers)


def read_report(draft: ProviderDraft) -> CheckReport | None:
    return None if draft.report is None else CheckReport.from_json(draft.report["check"])


def read_sample(draft: ProviderDraft) -> Sample | None:
    sample = (draft.report or {}).get("sample")
    return Sample(**sample) if sample else None
