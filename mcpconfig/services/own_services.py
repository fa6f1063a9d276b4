"""Services that members add for themselves: their form, fixed fields and limits."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import Look, Service
from mcpconfig.net.addresses import check_url
from mcpconfig.values import builtin
from mcpconfig.values.errors import OperationError

from .service_form import ServiceForm

Authentication = Service.Authentication

MAX_OWN = 20
# A limit, because each look at a service occupies a thread until its server answers or a timeout.
MAX_LOOKS_A_MINUTE = 6
TOO_OFTEN = gettext_lazy("You have checked services too often. Wait a minute, then try again.")
SIGN_IN_CHOICES = [
    (Authentication.NONE, gettext_lazy("No sign-in needed")),
    (Authentication.BEARER, gettext_lazy("Bearer token")),
    (Authentication.HEADERS, gettext_lazy("HTTP headers")),
    (Authentication.OAUTH_USER, gettext_lazy("Sign in at the service (OAuth)")),
]
# Set at each save, so that what an admin granted does not apply to another server.
FIXED_FIELDS: dict[str, Any] = {
    "visibility": Service.Visibility.PRIVATE,
    "allows_private_addresses": False,
    "is_trusted": False,
    "is_open": True,
    "new_tools": Service.NewTools.WAIT,
    "allows_apps": False,
    "app_origins": "",
    "identity_provider": None,
}


def list_own_services(person: AbstractUser) -> QuerySet[Service]:
    """Return the services that this person added for themselves, including disabled ones.

    A service that an admin added for them is not included, because they could change it and its
    secrets may be the admin's.
    """
    private = Service.Visibility.PRIVATE
    return Service.objects.filter(owner=person.pk, added_by=person.pk, visibility=private)


def claim_look(person: AbstractUser) -> bool:
    """Count a look at a service, and return whether it is within the limit for this person.

    The look is stored before it is counted, so that concurrent looks count each other.
    """
    since = timezone.now() - timedelta(minutes=1)
    looks = Look.objects.filter(person_id=person.pk)
    looks.filter(at__lt=since).delete()
    look = Look.objects.create(person_id=person.pk)
    if looks.filter(at__gte=since).count() <= MAX_LOOKS_A_MINUTE:
        return True
    look.delete()
    return False


class OwnServiceForm(ServiceForm):
    """The form of the admin with the fields that a member may set."""

    client_secret = None  # type: ignore[assignment]  # removes the field

    class Meta(ServiceForm.Meta):
        fields = ("name", "title", "description", "url", "authentication")  # type: ignore[assignment]
        labels = {"authentication": gettext_lazy("Sign-in"), "url": gettext_lazy("Address (URL)")}

    def __init__(self, *args: Any, owner: AbstractUser, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance.owner = self.instance.added_by = owner
        if self.instance.pk is not None:
            self.fields["name"].disabled = True
            self.fields["name"].help_text = _(
                "You can’t change it, because it prefixes the names of the service’s tools."
            )
        self.fields["authentication"].choices = SIGN_IN_CHOICES  # type: ignore[attr-defined]
        self.fields["url"].help_text = _(
            "Must start with https:// and be reachable from the internet."
        )
        if self.instance.pk is None:
            self.fields["bearer"].help_text = ""
            self.fields["headers"].help_text = _("One per line, as “Name: value”.")
        for name, field in self.fields.items():
            help_id = f"id_{name}_helptext" if field.help_text else ""
            error_id = f" id_{name}_error" if name in (self.errors if self.is_bound else ()) else ""
            field.widget.attrs["aria-describedby"] = f"{help_id}{error_id}".strip()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.instance.pk is None and list_own_services(self.instance.owner).count() >= MAX_OWN:
            raise ValidationError(
                _("You already have %(count)s services, the maximum. Remove one first.")
                % {"count": MAX_OWN}
            )
        return cleaned

    def _check_url(self, cleaned: dict[str, Any]) -> None:
        url = cleaned.get("url", "")
        if builtin.is_builtin(url):
            self.add_error("url", _("The URL must begin with https://."))
            return
        try:
            check_url(url, allows_private=False)
        except OperationError as error:
            if url:
                self.add_error("url", error.message)

    def save_service(self) -> Service | None:
        """Save the service and return it. Return None if its name was taken meanwhile."""
        service: Service = self.instance
        for field, value in (FIXED_FIELDS | service.forgotten_failure()).items():
            setattr(service, field, value)
        try:
            with transaction.atomic():
                self._save_fields(service)
        except IntegrityError:
            self.add_error("name", _("This name is taken. Choose another one."))
            return None
        return service

    def _save_fields(self, service: Service) -> None:
        if service.pk is None:
            service.save()
        else:
            if "url" in self.changed_data:
                _forget_decisions(service)
            fields = {*self.Meta.fields, *FIXED_FIELDS, *service.forgotten_failure()}
            service.save(update_fields=fields)
        self.store_secrets()


def _forget_decisions(service: Service) -> None:
    """Reset what an admin granted to the tools, because the new address is another server.

    Disabled tools stay disabled. Each setting is saved by itself, because `update()` sends no
    signal to the audit log.
    """
    for setting in service.settings.all():
        setting.confirmed_hash, setting.level, setting.is_safe_to_repeat = "", "", False
        setting.save(update_fields=["confirmed_hash", "level", "is_safe_to_repeat"])
