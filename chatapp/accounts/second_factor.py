"""Second factors: the secrets of an authenticator app, recovery codes and passkeys.

django-allauth keeps and checks them. Added here: encryption at rest, a limit on codes and the
single use of each that hold in all processes, and who must have one.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from allauth.account.stages import LoginStage
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.internal.constants import LoginStageKey
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import (
    format_hotp_value,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.contrib.auth import user_logged_in
from django.db import transaction
from django.db.models.signals import post_delete
from django.http import HttpRequest
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from chatapp.audit.audit_log import Who
from chatapp.models import CodeUse, LogEntry, Member
from chatapp.people.factor_policy import SESSION_MARK, needs_second_factor
from mcpconfig.secrets import encryption
from mcpconfig.services.secret_rotation import StoredSecret

from . import entries
from .sessions import end_sessions

logger = logging.getLogger(__name__)
Type = Authenticator.Type
MAIN_TYPES = (Type.TOTP, Type.WEBAUTHN)
PLACE = "second factor"
# Where each type has its secret. A passkey is a public key.
SECRET_KEYS = {Type.TOTP: "secret", Type.RECOVERY_CODES: "seed"}


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # django-allauth has no types
    def encrypt(self, text: str) -> str:
        return encryption.encrypt(text, place=PLACE).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return encryption.decrypt(encrypted_text.encode(), place=PLACE)

    def get_totp_label(self, user: Member) -> str:
        return user.username

    def _get_site_name(self) -> str:
        return "Countersign"

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """The last factor of somebody who needs one stays."""
        member = authenticator.user
        others = find_main_factors(member).exclude(pk=authenticator.pk)
        return not needs_second_factor(member) or others.exists()

    def generate_authenticator_name(self, user: Member, type: str) -> str:
        return _("Passkey")


class SecondFactorStage(LoginStage):  # type: ignore[misc]  # django-allauth has no types
    """The step of a sign-in that asks for the second factor. The stage of django-allauth decides;
    it imports the libraries of passkeys, so people without a second factor do not reach it."""

    key = LoginStageKey.MFA_AUTHENTICATE.value
    urlname = "mfa_authenticate"

    def handle(self) -> tuple[Any, bool]:
        if self.login.user is not None and not find_main_factors(self.login.user).exists():
            return None, True
        decides = import_string("allauth.mfa.stages.AuthenticateStage")
        answer: tuple[Any, bool] = decides(self.controller, self.request, self.login).handle()
        return answer


def find_factor_of_code(member: Member, code: str) -> Authenticator | None:
    """Return the factor that this code belongs to, and use the code up. A factor whose key is gone
    fits no code."""
    for factor in Authenticator.objects.filter(user=member).exclude(type=Type.WEBAUTHN):
        try:
            if factor.type == Type.TOTP:
                is_right = _use_app_code(member, factor, code)
            else:
                is_right = bool(factor.wrap().validate_code(code))
        except encryption.DecryptionError:
            logger.error("No key in ENCRYPTION_KEYS opens second factor %s.", factor.pk)
            continue
        if is_right:
            return factor
    return None


def count_recovery_codes(codes: Authenticator) -> int:
    """Return how many recovery codes are left; none if their key is gone."""
    try:
        return len(codes.wrap().get_unused_codes())
    except encryption.DecryptionError:
        return 0


def _use_app_code(member: Member, factor: Authenticator, code: str) -> bool:
    secret = SecondFactorAdapter().decrypt(factor.data["secret"])
    for step in yield_hotp_counters_from_time():
        if compare_user_code(actual=code, expected=format_hotp_value(hotp_value(secret, step))):
            return CodeUse.claim_step(member.pk, step)
    return False


def find_main_factors(member: Member) -> Any:
    """Return the app and the passkeys of a member. Recovery codes alone are no second factor."""
    return Authenticator.objects.filter(user=member, type__in=MAIN_TYPES)


def check_session(request: HttpRequest) -> bool:
    """Whether the person of this session may use pages. One lookup for each session of a person who
    needs a second factor."""
    member = cast(Member, request.user)
    if not needs_second_factor(member) or request.session.get(SESSION_MARK):
        return True
    if not find_main_factors(member).exists():
        return False
    request.session[SESSION_MARK] = True
    return True


def remove_second_factor(member: Member, actor: Who | None = None) -> int:
    """Remove all second factors of a member and end their sessions. Return how many there were."""
    with transaction.atomic():
        factors = list(Authenticator.objects.filter(user=member))
        Authenticator.objects.filter(user=member).delete()
        CodeUse.objects.filter(member=member).delete()
        for factor in factors:
            entries.write(
                LogEntry.Kind.FACTOR_REMOVED, member, actor, of=entries.FACTORS[factor.type]
            )
        if factors:
            end_sessions(member)
    return len(factors)


def connect_signals() -> None:
    post_delete.connect(_forget_mark, sender=Authenticator, dispatch_uid="factor-deleted")
    user_logged_in.connect(_mark_session, dispatch_uid="mark-second-factor")


def _mark_session(request: Any, user: Member, **_facts: Any) -> None:
    """Mark the session at the sign-in, so that its sockets may open at once."""
    if request is not None and needs_second_factor(user) and find_main_factors(user).exists():
        request.session[SESSION_MARK] = True


def _forget_mark(instance: Authenticator, **_facts: Any) -> None:
    """End the sessions of a person who needs a second factor and has no more."""
    member = Member.objects.filter(pk=instance.user_id).first()
    if member and needs_second_factor(member) and not find_main_factors(member).exists():
        end_sessions(member)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorSecret(StoredSecret):
    """A secret in the JSON of an authenticator, under its `field`."""

    def rotate(self) -> bool:
        """Encrypt the secret with the first key. Return False if it changed meanwhile."""
        with transaction.atomic():
            row = Authenticator.objects.select_for_update().filter(pk=self.pk).first()
            if row is None or row.data.get(self.field) != self.token.decode():
                return False
            row.data[self.field] = encryption.rotate(self.token).decode()
            row.save(update_fields=["data"])
        return True


def iterate_factor_secrets() -> Iterator[FactorSecret]:
    """Yield the secrets of second factors, for `rotate_keys` and `doctor`."""
    factors = Authenticator.objects.filter(type__in=SECRET_KEYS).order_by("pk")
    for pk, kind, data in list(factors.values_list("pk", "type", "data")):
        key = SECRET_KEYS[Type(kind)]
        yield FactorSecret(model=Authenticator, pk=pk, field=key, token=str(data[key]).encode())
