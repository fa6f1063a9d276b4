"""Sign-ins to services: who this application is to an authorization server, sign-ins under way, and
the grants that came of them. Secrets in here are opened by `mcpconfig/oauth` only."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from mcpconfig.models.service import Service

from .identity_provider import CompanySignIn, IdentityProvider
from .sealed_field import SealedField


class OAuthClient(models.Model):
    """What this application is called at one authorization server, for one redirect address.

    A new row is made where something of it must change, because grants that were made with the old
    one can only be renewed with the old one.
    """

    class Kind(models.TextChoices):
        TYPED = "typed", _("entered by an admin")
        DOCUMENT = "document", _("client metadata document")
        REGISTERED = "registered", _("registered automatically")

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="oauth_clients")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    issuer = models.CharField(max_length=2000)
    redirect_uri = models.CharField(max_length=2000, blank=True)
    client_id = models.CharField(max_length=2000)
    secret = SealedField(default=b"")
    method = models.CharField(max_length=30, default="none")
    scope = models.TextField(blank=True)
    secret_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.client_id} at {self.issuer}"


class OAuthAttempt(models.Model):
    """A sign-in that a person began: good once, for ten minutes, in the browser that began it."""

    LIFETIME = timedelta(minutes=10)

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="oauth_attempts")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    # One of the two: the service's own server is asked, or the company's.
    client = models.ForeignKey(OAuthClient, on_delete=models.CASCADE, null=True)
    identity_provider = models.ForeignKey(
        IdentityProvider, on_delete=models.CASCADE, null=True, related_name="attempts"
    )
    redirect_uri = models.CharField(max_length=2000, blank=True)
    method = models.CharField(max_length=30, blank=True)
    state_hash = models.CharField(max_length=64, unique=True)
    session_hash = models.CharField(max_length=64)
    verifier = SealedField()
    is_shared = models.BooleanField(default=False)
    is_step_up = models.BooleanField(default=False)
    # Where the person is sent and what must come back: fixed before they leave.
    endpoint = models.CharField(max_length=2000)
    issuer = models.CharField(max_length=2000)
    resource = models.CharField(max_length=2000)
    scope = models.TextField(blank=True)
    token_endpoint = models.CharField(max_length=2000)
    revocation_endpoint = models.CharField(max_length=2000, blank=True)
    names_its_issuer = models.BooleanField(default=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in to {self.service_id} by {self.person_id}"


class OAuthGrant(models.Model):
    """The tokens that open a service for one person, or for everybody where `person` is empty.

    It opens the endpoint that it was given for and no other: a service with a changed URL has no
    grant. `version` rises with every new token; `lease` is the right to ask for the next one.
    """

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="oauth_grants")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    client = models.ForeignKey(OAuthClient, on_delete=models.CASCADE, null=True)
    # What it was made from, where that was not a sign-in of its own.
    company_sign_in = models.ForeignKey(CompanySignIn, on_delete=models.CASCADE, null=True)
    endpoint = models.CharField(max_length=2000)
    issuer = models.CharField(max_length=2000, blank=True)
    resource = models.CharField(max_length=2000, blank=True)
    scope = models.TextField(blank=True)
    wanted_scope = models.TextField(blank=True)
    token_endpoint = models.CharField(max_length=2000, blank=True)
    revocation_endpoint = models.CharField(max_length=2000, blank=True)
    access = SealedField(default=b"")
    refresh = SealedField(default=b"")
    renew_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=0)
    lease = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    is_dead = models.BooleanField(default=False)
    step_ups = models.PositiveSmallIntegerField(default=0)
    connected_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["service", "person"], name="one_grant_of_a_person"),
            models.UniqueConstraint(
                fields=["service"],
                condition=models.Q(person=None),
                name="one_grant_for_everybody",
            ),
        ]

    def __str__(self) -> str:
        return f"sign-in of {self.person_id or 'everybody'} to {self.service_id}"


class OAuthChallenge(models.Model):
    """What a service said when it turned somebody away: what the next sign-in must ask for."""

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="oauth_challenges")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    endpoint = models.CharField(max_length=2000)
    resource_metadata = models.CharField(max_length=2000, blank=True)
    scope = models.TextField(blank=True)
    is_step_up = models.BooleanField(default=False)
    seen_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.service_id} wants {self.scope or 'a sign-in'}"


class OAuthRevocation(models.Model):
    """A token that is to be made worthless at its server, after its grant is gone from here."""

    revocation_endpoint = models.CharField(max_length=2000)
    service_url = models.CharField(max_length=2000)
    allows_private_addresses = models.BooleanField(default=False)
    payload = SealedField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"to be revoked at {self.revocation_endpoint}"
