"""What the log says of what admins and people configure: before and after, and by whom.

It follows the rows themselves, so that it makes no difference which page or command changed them.
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
from django.utils import timezone

from chatapp.models import (
    Allowance,
    ChatModel,
    Consent,
    HousePolicy,
    Member,
    ModelProvider,
    PolicyRule,
    PolicyTest,
    SecondSignature,
    StandIn,
    ToolLimit,
)
from mcpconfig.ledger import is_by_setting
from mcpconfig.masking import masked
from mcpconfig.models import (
    CompanySignIn,
    Credential,
    IdentityProvider,
    OAuthGrant,
    Service,
    ToolSetting,
)

from . import log
from .log import Happening, Who

Kind = log.Kind
MOST_CHARACTERS = 500
# Whoever happened to have the tools fetched has confirmed nothing.
BY_SETTING = Who(name="Countersign, by the service’s setting")
SECRETS = (
    *("bearer", "headers", "client_secret", "password", "secret"),
    *("key_id", "sealed_key", "sealed_headers"),
)
# What is logged of which rows. What is learned of a service changes all day, and is no act.
WATCHED: dict[type[Model], tuple[log.Kind, tuple[str, ...]]] = {
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
            *("guidance", "starts_on", "added_by_id"),
        ),
    ),
    Credential: (Kind.SERVICE, ("service_id", "bearer", "headers", "client_secret")),
    IdentityProvider: (Kind.SERVICE, ()),
    ToolSetting: (Kind.TOOL, ()),
    ModelProvider: (
        Kind.MODELS,
        (
            *("slug", "kind", "label", "is_enabled", "base_url", "region", "key_place", "key_id"),
            *("sealed_key", "sealed_headers", "offers_unlisted"),
        ),
    ),
    ChatModel: (Kind.MODELS, ()),
    Allowance: (Kind.MODELS, ()),
    Member: (
        Kind.MEMBER,
        ("username", "is_active", "is_staff", "is_superuser", "password"),
    ),
    Group: (Kind.MEMBER, ("name",)),
}
MEMBERSHIPS = {
    PolicyRule.groups.through: Kind.POLICY,
    HousePolicy.adding_groups.through: Kind.POLICY,
    Service.groups.through: Kind.SERVICE,
    ChatModel.groups.through: Kind.MODELS,
    Member.groups.through: Kind.MEMBER,
}
REGROUPED = {"post_add": "put into", "post_remove": "taken from", "pre_clear": "taken from all"}
# Taking one back and its uses are told by whoever does that.
OF_CONSENT = {"added": Kind.CONSENT_GIVEN, "removed": Kind.CONSENT_REVOKED}
SIGN_INS: tuple[type[Model], ...] = (OAuthGrant, CompanySignIn)
Values = dict[str, Any]


def watch() -> None:
    """Follow the rows from now on."""
    models: list[type[Model]] = [*WATCHED, Consent, *SIGN_INS]
    for model in models:
        name = f"log-{model.__name__}"
        pre_save.connect(remember, sender=model, dispatch_uid=name)
        post_save.connect(saved, sender=model, dispatch_uid=name)
        pre_delete.connect(going, sender=model, dispatch_uid=name)
        post_delete.connect(deleted, sender=model, dispatch_uid=name)
    for through in MEMBERSHIPS:
        m2m_changed.connect(regrouped, sender=through, dispatch_uid=f"log-{through.__name__}")
    user_logged_in.connect(signed_in, dispatch_uid="log-signed-in")
    user_logged_out.connect(signed_out, dispatch_uid="log-signed-out")


def remember(sender: type[Model], instance: Any, **facts: Any) -> None:
    """Keep the row as it is stored, for `saved` to compare."""
    now, written = _values(instance), facts.get("update_fields")
    if not any(_is_written(name, written) for name in now):
        instance._before_in_log = now
        return
    stored = sender._default_manager.filter(pk=instance.pk).first()
    instance._before_in_log = None if stored is None else _values(stored)


def saved(sender: type[Model], instance: Any, **facts: Any) -> None:
    before, now = instance._before_in_log, _values(instance)
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


def going(sender: type[Model], instance: Any, **_facts: Any) -> None:
    """Read whose it is while that can be read: a person or a service takes its rows along."""
    for field in sender._meta.concrete_fields:
        if field.is_relation:
            getattr(instance, field.name)


def deleted(sender: type[Model], instance: Any, **_facts: Any) -> None:
    gone = {name: {"before": value, "after": None} for name, value in _values(instance).items()}
    _log(sender, instance, "removed", gone)


def regrouped(
    sender: type[Model],
    instance: Any,
    action: str,
    model: type[Model],
    pk_set: set[int] | None,
    **_facts: Any,
) -> None:
    """Groups of a rule, a service, a model or a member, or the other way round."""
    if action not in REGROUPED or not (pk_set or action == "pre_clear"):
        return
    names = [str(row) for row in model._default_manager.filter(pk__in=pk_set or ())]
    data = {"of": _titled(instance), "act": REGROUPED[action], "groups": sorted(names)}
    person = Who.of(instance) if isinstance(instance, Member) else log.SERVER
    log.append([Happening(kind=MEMBERSHIPS[sender], data=data, actor=log.acting(), person=person)])


def _log(sender: type[Model], instance: Any, act: str, changed: Mapping[str, Any]) -> None:
    if sender is Consent:
        happening = _of_consent(instance, OF_CONSENT[act]) if act in OF_CONSENT else None
    elif sender in SIGN_INS:
        happening = _of_sign_in(instance, act, changed)
    else:
        happening = Happening(
            kind=WATCHED[sender][0],
            data={"of": _titled(instance), "act": act, "changed": _readable(changed)},
            actor=BY_SETTING if is_by_setting() else log.acting(),
            person=Who.of(instance) if isinstance(instance, Member) else log.SERVER,
        )
    if happening is not None:
        log.append([happening])


def consent_ended(consent: Consent, kind: log.Kind) -> None:
    """Log that a person has taken a consent back, or that it lapsed for want of use."""
    log.append([_of_consent(consent, kind)])


def note_lapsed() -> None:
    """Log, once each, the consents that nobody used for so long that they count no more."""
    since = timezone.now() - timedelta(days=HousePolicy.current().consent_days)
    unused = Consent.objects.filter(revoked_at=None, lapse_noted_at=None).select_related("service")
    lapsed = unused.annotate(last_seen=Coalesce("last_used_at", "created_at"))
    for consent in lapsed.filter(last_seen__lt=since).select_related("person")[:100]:
        with transaction.atomic():
            mine = Consent.objects.filter(pk=consent.pk, lapse_noted_at=None)
            if mine.update(lapse_noted_at=Now()):
                consent_ended(consent, Kind.CONSENT_LAPSED)


def _of_consent(consent: Consent, kind: log.Kind) -> Happening:
    person = Who.of(consent.person)
    by_somebody = log.acting() if log.acting().id else person
    data = {
        "consent": str(consent.pk),
        "scope": consent.scope,
        "service": consent.service.name,
        "endpoint": masked(consent.endpoint, ()),
        "definitions": consent.definitions,
    }
    return Happening(
        kind=kind,
        data=data,
        actor=log.SERVER if kind == Kind.CONSENT_LAPSED else by_somebody,
        person=person,
        conversation_id=consent.conversation_id,
    )


def _of_sign_in(
    row: OAuthGrant | CompanySignIn, act: str, changed: Mapping[str, Any]
) -> Happening | None:
    """A sign-in to a service or a company and its end; that a token was renewed is neither. Only
    the person signs in, whoever may end it."""
    is_new = act != "removed" and "connected_at" in changed and row.connected_at is not None
    if act != "removed" and not is_new:
        return None
    person = Who.of(row.person)
    return Happening(
        kind=Kind.CONNECTED if is_new else Kind.DISCONNECTED,
        data={"issuer": row.issuer, **_where(row)},
        actor=person if is_new and log.acting().id is None else log.acting(),
        person=person,
    )


def _where(row: OAuthGrant | CompanySignIn) -> Values:
    if isinstance(row, CompanySignIn):
        return {"company": row.identity_provider.name, "for": "one person"}
    return {
        "service": row.service.name,
        "endpoint": masked(row.endpoint, ()),
        "scope": row.scope,
        "for": "everybody" if row.person_id is None else "one person",
    }


def signed_in(user: Member, **_facts: Any) -> None:
    who = Who.of(user)
    log.append([Happening(kind=Kind.SIGNED_IN, data={}, actor=who, person=who)])


def signed_out(user: Member | None, **_facts: Any) -> None:
    if user is not None:
        who = Who.of(user)
        log.append([Happening(kind=Kind.SIGNED_OUT, data={}, actor=who, person=who)])


def _values(instance: Any) -> Values:
    fields = instance._meta.concrete_fields
    names = WATCHED.get(type(instance), (None, ()))[1] or tuple(
        field.attname for field in fields if not getattr(field, "auto_now", False)
    )
    return {name: getattr(instance, name) for name in names}


def _readable(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Before and after as a person may read them: of a secret only whether it is set."""
    return {
        name: {when: _shown(name, value) for when, value in pair.items()}
        for name, pair in changed.items()
    }


def _shown(name: str, value: Any) -> Any:
    if name in SECRETS:
        return "set" if value else "not set"
    if value is None or isinstance(value, bool | int | list | dict):
        return value
    return masked(str(value), ())[:MOST_CHARACTERS]


def _titled(instance: Any) -> str:
    match instance:
        case ToolSetting():
            return f"tool {instance.name} of {instance.service.name}"
        case Credential():
            return f"credentials of {instance.service.name}"
        case Service():
            return f"service {instance.name}"
        case Member():
            return f"member {instance.username}"
    return f"{instance._meta.verbose_name} {instance}"[:200]
