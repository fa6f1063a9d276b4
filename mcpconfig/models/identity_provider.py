"""Company sign-in: the identity providers that admins set up, and who is signed in at one. Secrets
in here are opened by `mcpconfig/oauth` only."""

from collections.abc import Iterable

from django.conf import settings
from django.db import models, transaction
from django.db.models.base import ModelBase
from django.utils.translation import gettext_lazy as _

from .sealed_field import SealedField


class IdentityProvider(models.Model):
    """Where the people of a company sign in, once for all services that are opened that way."""

    name = models.SlugField(
        _("short name"),
        max_length=60,
        unique=True,
        help_text=_("Part of the redirect URI."),
    )
    title = models.CharField(
        _("name"),
        max_length=100,
        blank=True,
        help_text=_("The name shown in Countersign. If empty, the short name is shown."),
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=2000,
        help_text=_(
            "The exact issuer identifier. It begins with https:// unless private addresses are "
            "allowed."
        ),
    )
    client_id = models.CharField(_("client ID"), max_length=500)
    secret = SealedField(_("secret"), default=b"")
    allows_private_addresses = models.BooleanField(
        _("allow private addresses"),
        default=False,
        help_text=_("For a provider in your own network. Allows http:// and private addresses."),
    )

    class Meta:
        verbose_name = _("identity provider")
        verbose_name_plural = _("identity providers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.title or self.name

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Another issuer, or another client, gets neither the old secret nor the old sign-ins."""
        with transaction.atomic():
            if self.pk and self._is_another():
                # By id: giving back what was given takes the client as it is stored still.
                CompanySignIn.objects.filter(identity_provider_id=self.pk).delete()
                self.attempts.all().delete()
                self.secret = b""
            super().save(
                force_insert=force_insert,
                force_update=force_update,
                using=using,
                update_fields=update_fields,
            )

    def _is_another(self) -> bool:
        same = IdentityProvider.objects.filter(issuer=self.issuer, client_id=self.client_id)
        return not same.filter(pk=self.pk).exists()


class CompanySignIn(models.Model):
    """One person's sign-in at an identity provider: what grants for services are made from, and go
    with. `version` and `lease` are those of a grant: one process at a time renews it."""

    identity_provider = models.ForeignKey(
        IdentityProvider, on_delete=models.CASCADE, related_name="sign_ins"
    )
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    issuer = models.CharField(max_length=2000)
    subject = models.CharField(max_length=500)
    method = models.CharField(max_length=30, default="none")
    token_endpoint = models.CharField(max_length=2000)
    revocation_endpoint = models.CharField(max_length=2000, blank=True)
    id_token = SealedField(default=b"")
    refresh = SealedField(default=b"")
    renew_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=0)
    lease = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    is_dead = models.BooleanField(default=False)
    connected_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["identity_provider", "person"], name="one_company_sign_in_of_a_person"
            ),
        ]

    def __str__(self) -> str:
        return f"sign-in of {self.person_id} at {self.issuer}"
