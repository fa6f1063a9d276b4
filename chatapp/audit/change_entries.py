"""The log's entries about changes of the configuration: the values before and after, and by whom.

They are written by model signals, whichever page or command changes a row.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db import transaction
from django.db.models import Model
from django.db.models.functions import Coalesce, Now
from django.db.models.signals import (
    m2m_changed,
    post_delete,
    post_save,
    pre_delete,
    pre_save,
)
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import override

from chatapp.models import (
    Allowance,
    Assistant,
    ChatModel,
    Consent,
    Conversation,
    EmbeddingSettings,
    HousePolicy,
    Member,
    ModelProvider,
    PolicyRule,
    PolicyTest,
    SavedPrompt,
    SecondSignature,
    StandIn,
    ToolLimit,
    Webhook,
)
from mcpconfig.models import (
    CompanySignIn,
    Credential,
    IdentityProvider,
    OAuthClient,
    OAuthGrant,
    Service,
    ToolSetting,
)
from mcpconfig.services.tool_definitions import is_confirmed_by_setting
from mcpconfig.values.masking import mask_secrets

from . import audit_log
from .audit_log import AuditEvent, Who

Kind = audit_log.Kind
MAX_CHARACTERS = 500
# The person who had the tools fetched has not confirmed them.
BY_SETTING = Who(name="Countersign, by the service’s setting")
SECRETS = (
    *("bearer", "headers", "client_secret", "password", "secret"),
    *("key_id", "sealed_key", "sealed_headers", "sealed_address", "sealed_secret"),
)
# Personal data that ends with an account. The log keeps its entries, so it has no values of these.
PERSONAL = ("email", "first_name", "last_name")
# What the program derives from other fields, which are logged.
DERIVED = frozenset({"switched_on_at"})
# Fields with one entry a line. They are logged in full, as a list.
LISTS = ("allowed_hosts",)
# The logged fields of each model, () for all. Discovered facts about a service are not logged.
WATCHED: dict[type[Model], tuple[audit_log.Kind, tuple[str, ...]]] = {
    PolicyRule: (Kind.POLICY, ()),
    HousePolicy: (Kind.POLICY, ()),
    ToolLimit: (Kind.POLICY, ()),
    PolicyTest: (Kind.POLICY, ()),
    SecondSignature: (Kind.POLICY, ()),
    StandIn: (Kind.POLICY, ()),
    Service: (
        Kind.SERVICE,
        (
            *("name", "url", "transport", "authentication", "client_id", "scopes", "is_enabled"),
            *("allows_private_addresses", "is_trusted", "is_open", "allows_apps", "app_origins"),
            *("owner_id", "visibility", "shares_tools", "new_tools", "identity_provider_id"),
            *("guidance", "starts_on", "added_by_id", "title", "description", "icon", "colour"),
            *("reconnects", "most_retries"),
        ),
    ),
    Credential: (Kind.SERVICE, ("service_id", "bearer", "headers", "client_secret")),
    IdentityProvider: (Kind.SERVICE, ()),
    ToolSetting: (Kind.TOOL, ()),
    ModelProvider: (
        Kind.MODELS,
        (
            *("slug", "kind", "label", "is_enabled", "base_url", "region", "key_place", "key_id"),
            *("sealed_key", "sealed_headers", "offers_unlisted", "position"),
        ),
    ),
    ChatModel: (Kind.MODELS, ()),
    Allowance: (Kind.MODELS, ()),
    EmbeddingSettings: (Kind.MODELS, ("model", "dimensions", "price", "currency")),
    Member: (
        Kind.MEMBER,
        (
            *("username", "is_active", "is_staff", "is_superuser", "rights", "password"),
            *PERSONAL,
        ),
    ),
    Group: (Kind.MEMBER, ("name",)),
    Webhook: (
        Kind.NOTIFICATIONS,
        (
            *("name", "format", "is_enabled", "host", "room", "sealed_address", "sealed_secret"),
            *("audience", "sends_waiting", "sends_answers"),
        ),
    ),
}
MEMBERSHIPS = {
    PolicyRule.groups.through: Kind.POLICY,
    HousePolicy.adding_groups.through: Kind.POLICY,
    Service.groups.through: Kind.SERVICE,
    ChatModel.groups.through: Kind.MODELS,
    Member.groups.through: Kind.MEMBER,
    Webhook.groups.through: Kind.NOTIFICATIONS,
    Webhook.members.through: Kind.NOTIFICATIONS,
}
MEMBERSHIP_ACTS = {
    "post_add": "put into",
    "post_remove": "taken from",
    "pre_clear": "taken from all",
}
# The code that revokes or uses a consent logs that itself.
CONSENT_KINDS = {"added": Kind.CONSENT_GIVEN, "removed": Kind.CONSENT_REVOKED}
SIGN_INS: tuple[type[Model], ...] = (OAuthGrant, CompanySignIn)
Values = dict[str, Any]


def connect_signals() -> None:
    """Connect the signals of the logged models."""
    models: list[type[Model]] = [*WATCHED, Consent, *SIGN_INS]
    for model in models:
        name = f"log-{model.__name__}"
        pre_save.connect(remember, sender=model, dispatch_uid=name)
        post_save.connect(log_saved, sender=model, dispatch_uid=name)
        pre_delete.connect(load_relations, sender=model, dispatch_uid=name)
        post_delete.connect(log_deleted, sender=model, dispatch_uid=name)
    for through in MEMBERSHIPS:
        m2m_changed.connect(log_membership, sender=through, dispatch_uid=f"log-{through.__name__}")
    user_logged_in.connect(log_sign_in, dispatch_uid="log-signed-in")
    user_logged_out.connect(log_sign_out, dispatch_uid="log-signed-out")


def remember(sender: type[Model], instance: Any, **facts: Any) -> None:
    """Remember the stored values of the row, for `log_saved` to compare."""
    now, written = _read_values(instance), facts.get("update_fields")
    if not any(_is_written(name, written) for name in now):
        instance._before_in_log = now
        return
    stored = sender._default_manager.filter(pk=instance.pk).first()
    instance._before_in_log = None if stored is None else _read_values(stored)


def log_saved(sender: type[Model], instance: Any, **facts: Any) -> None:
    before, now = instance._before_in_log, _read_values(instance)
    written = facts.get("update_fields")
    changed = {
        name: {"before": (before or {}).get(name), "after": value}
        for name, value in now.items()
        if (before is None or before[name] != value) and _is_written(name, written)
    }
    if changed:
        _log(sender, instance, "added" if before is None else "changed", changed)


def _is_written(name: str, written: Iterable[str] | None) -> bool:
    return written is None or name in written or name.removesuffix("_id") in written


def load_relations(sender: type[Model], instance: Any, **_facts: Any) -> None:
    """Load the related rows while they exist: deleting a person or service deletes its rows too."""
    for field in sender._meta.concrete_fields:
        if field.is_relation:
            getattr(instance, field.name)


def log_deleted(sender: type[Model], instance: Any, **_facts: Any) -> None:
    gone = {
        name: {"before": value, "after": None} for name, value in _read_values(instance).items()
    }
    _log(sender, instance, "removed", gone)


def log_membership(
    sender: type[Model],
    instance: Any,
    action: str,
    model: type[Model],
    pk_set: set[int] | None,
    **_facts: Any,
) -> None:
    """Log a change of the groups of a rule, service, model or member."""
    if action not in MEMBERSHIP_ACTS or not (pk_set or action == "pre_clear"):
        return
    names = [str(row) for row in model._default_manager.filter(pk__in=pk_set or ())]
    data = {"of": _make_title(instance), "act": MEMBERSHIP_ACTS[action], "groups": sorted(names)}
    person = Who.of(instance) if isinstance(instance, Member) else audit_log.SERVER
    audit_log.append(
        [
            AuditEvent(
                kind=MEMBERSHIPS[sender], data=data, actor=audit_log.get_actor(), person=person
            )
        ]
    )


def _log(sender: type[Model], instance: Any, act: str, changed: Mapping[str, Any]) -> None:
    if sender is Consent:
        event = _build_consent_event(instance, CONSENT_KINDS[act]) if act in CONSENT_KINDS else None
    elif sender in SIGN_INS:
        event = _build_sign_in_event(instance, act, changed)
    else:
        event = AuditEvent(
            kind=WATCHED[sender][0],
            data={
                "of": _make_title(instance),
                "act": act,
                "changed": _make_changes_readable(changed),
            },
            actor=BY_SETTING if is_confirmed_by_setting() else audit_log.get_actor(),
            person=Who.of(instance) if isinstance(instance, Member) else audit_log.SERVER,
        )
    if event is not None:
        audit_log.append([event])


def log_forgotten_registration(client: OAuthClient) -> None:
    """Log that an admin deleted the registration of this application at a server."""
    issuer = mask_secrets(client.issuer, ())
    values = {"issuer": issuer, "client_id": mask_secrets(client.client_id, ())}
    changed = {name: {"before": value, "after": None} for name, value in values.items()}
    of = f"registration at “{issuer}” of {client.service.name}"
    data = {"of": of, "act": "removed", "changed": changed}
    audit_log.append([AuditEvent(kind=Kind.SERVICE, data=data, actor=audit_log.get_actor())])


def log_parameters(row: Conversation | Assistant, before: Values) -> None:
    """Log the parameters of a chat or an assistant that differ from those `before`."""
    changed = {
        name: {"before": value, "after": getattr(row, name)}
        for name, value in before.items()
        if value != getattr(row, name)
    }
    if not changed:
        return
    owner, is_chat = Who.of(row.owner), isinstance(row, Conversation)
    event = AuditEvent(
        kind=Kind.PARAMETERS,
        # The title of a chat is no part of the log.
        data={"of": "" if is_chat else _make_title(row), "act": "changed", "changed": changed},
        actor=owner,
        person=owner,
        conversation_id=row.pk if is_chat else None,
    )
    audit_log.append([event])


def log_deleted_preset(row: Assistant | SavedPrompt) -> None:
    """Log that an admin deleted an assistant or a saved prompt of a member."""
    owner = Who.of(row.owner)
    data = {"of": _make_title(row)}
    event = AuditEvent(
        kind=Kind.PRESET_DELETED, data=data, actor=audit_log.get_actor(), person=owner
    )
    audit_log.append([event])


def log_consent_end(consent: Consent, kind: audit_log.Kind) -> None:
    """Log that a person revoked a consent or that it lapsed."""
    audit_log.append([_build_consent_event(consent, kind)])


def log_lapsed_consents() -> None:
    """Log each consent once that lapsed because nobody used it."""
    since = timezone.now() - timedelta(days=HousePolicy.current().consent_days)
    unused = Consent.objects.filter(revoked_at=None, lapse_noted_at=None).select_related("service")
    lapsed = unused.annotate(last_seen=Coalesce("last_used_at", "created_at"))
    for consent in lapsed.filter(last_seen__lt=since).select_related("person")[:100]:
        with transaction.atomic():
            mine = Consent.objects.filter(pk=consent.pk, lapse_noted_at=None)
            if mine.update(lapse_noted_at=Now()):
                log_consent_end(consent, Kind.CONSENT_LAPSED)


def _build_consent_event(consent: Consent, kind: audit_log.Kind) -> AuditEvent:
    person = Who.of(consent.person)
    by_somebody = audit_log.get_actor() if audit_log.get_actor().id else person
    data = {
        "consent": str(consent.pk),
        "scope": consent.scope,
        "service": consent.service.name,
        "endpoint": mask_secrets(consent.endpoint, ()),
        "definitions": consent.definitions,
    }
    return AuditEvent(
        kind=kind,
        data=data,
        actor=audit_log.SERVER if kind == Kind.CONSENT_LAPSED else by_somebody,
        person=person,
        conversation_id=consent.conversation_id,
    )


def _build_sign_in_event(
    row: OAuthGrant | CompanySignIn, act: str, changed: Mapping[str, Any]
) -> AuditEvent | None:
    """Build the entry for a sign-in to a service or company, or for its end; None for a renewed
    token. Only the person can sign in; others may end it."""
    is_new = act != "removed" and "connected_at" in changed and row.connected_at is not None
    if act != "removed" and not is_new:
        return None
    person = Who.of(row.person)
    return AuditEvent(
        kind=Kind.CONNECTED if is_new else Kind.DISCONNECTED,
        data={"issuer": row.issuer, **_describe_place(row)},
        actor=person if is_new and audit_log.get_actor().id is None else audit_log.get_actor(),
        person=person,
    )


def _describe_place(row: OAuthGrant | CompanySignIn) -> Values:
    if isinstance(row, CompanySignIn):
        return {"company": row.identity_provider.name, "for": "one person"}
    return {
        "service": row.service.name,
        "endpoint": mask_secrets(row.endpoint, ()),
        "scope": row.scope,
        "for": "everybody" if row.person_id is None else "one person",
    }


def log_sign_in(user: Member, request: HttpRequest | None = None, **_facts: Any) -> None:
    """Log a sign-in, with the id of the provider that let the person in."""
    who = Who.of(user)
    steps = request.session.get("account_authentication_methods", []) if request else []
    provider = next((step["provider"] for step in steps if step.get("provider")), "")
    data = {"of": provider} if provider else {}
    audit_log.append([AuditEvent(kind=Kind.SIGNED_IN, data=data, actor=who, person=who)])


def log_sign_out(user: Member | None, **_facts: Any) -> None:
    if user is not None:
        who = Who.of(user)
        audit_log.append([AuditEvent(kind=Kind.SIGNED_OUT, data={}, actor=who, person=who)])


def _read_values(instance: Any) -> Values:
    fields = instance._meta.concrete_fields
    names = WATCHED.get(type(instance), (None, ()))[1] or tuple(
        field.attname
        for field in fields
        if not getattr(field, "auto_now", False) and field.attname not in DERIVED
    )
    return {name: getattr(instance, name) for name in names}


def _make_changes_readable(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values before and after. Of secrets and personal data, say only whether they are
    set."""
    return {
        name: {when: _make_readable(name, value) for when, value in pair.items()}
        for name, pair in changed.items()
    }


def _make_readable(name: str, value: Any) -> Any:
    if name in SECRETS or name in PERSONAL:
        return "set" if value else "not set"
    if name in LISTS:
        return str(value).splitlines()
    if value is None or isinstance(value, bool | int | list | dict):
        return value
    return mask_secrets(str(value), ())[:MAX_CHARACTERS]


def _make_title(instance: Any) -> str:
    match instance:
        case ToolSetting():
            return f"tool “{instance.name}” of {instance.service.name}"
        case Credential():
            return f"credentials of {instance.service.name}"
        case Service():
            return f"service {instance.name}"
        case Member():
            return f"member {instance.username}"
    # The log is hashed, so its text does not depend on the language of the person.
    with override("en"):
        kind, name = str(instance._meta.verbose_name), str(instance)
        return name if name.lower() == kind else f"{kind} {name}"[:200]
