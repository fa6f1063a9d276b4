"""Services that people add for themselves: what such a service may be, whatever was sent."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from . import builtin
from .admin.service_form import ServiceForm
from .errors import OperationError
from .models import Look, Service
from .network import check_url

Authentication = Service.Authentication

MOST_OWN = 20
# Each look at a service holds a thread for as long as its server likes, within the limits.
MOST_LOOKS_A_MINUTE = 6
TOO_OFTEN = (
    f"You looked at services {MOST_LOOKS_A_MINUTE} times within a minute, which is the most. "
    "Wait a minute, then try again."
)
WAYS_IN = [
    (Authentication.NONE, "It needs none"),
    (Authentication.BEARER, "Bearer token"),
    (Authentication.HEADERS, "Headers"),
    (Authentication.OAUTH_USER, "I sign in there (OAuth)"),
]
# Set at each save, so that nothing which an admin once granted goes on to another server.
TERMS: dict[str, Any] = {
    "visibility": Service.Visibility.PRIVATE,
    "allows_private_addresses": False,
    "is_trusted": False,
    "is_open": True,
    "new_tools": Service.NewTools.WAIT,
    "allows_apps": False,
    "app_origins": "",
    "identity_provider": None,
}


def own_services(person: AbstractUser) -> QuerySet[Service]:
    """The services that this person added for themselves, also those that an admin switched off.
    One that an admin made for them is not theirs to change: its secrets may be the admin's."""
    private = Service.Visibility.PRIVATE
    return Service.objects.filter(owner=person.pk, added_by=person.pk, visibility=private)


def may_look(person: AbstractUser) -> bool:
    """Whether this person may have one of their services looked at now; this look counts then.
    Stored before it is counted, so that two at once see each other."""
    since = timezone.now() - timedelta(minutes=1)
    looks = Look.objects.filter(person_id=person.pk)
    looks.filter(at__lt=since).delete()
    look = Look.objects.create(person_id=person.pk)
    if looks.filter(at__gte=since).count() <= MOST_LOOKS_A_MINUTE:
        return True
    look.delete()
    return False


class OwnServiceForm(ServiceForm):
    """The admin's form with what a person may say of a service of their own."""

    client_secret = None  # type: ignore[assignment]  # so Django leaves a field out

    class Meta(ServiceForm.Meta):
        fields = ("name", "title", "description", "url", "authentication")  # type: ignore[assignment]
        labels = {"authentication": "How you sign in", "url": "Address (URL)"}

    def __init__(self, *args: Any, owner: AbstractUser, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance.owner = self.instance.added_by = owner
        if self.instance.pk is not None:
            self.fields["name"].disabled = True
            self.fields["name"].help_text = "It stays: it begins the names of its tools."
        self.fields["authentication"].choices = WAYS_IN  # type: ignore[attr-defined]
        self.fields["url"].help_text = "Beginning with https://, and reachable from anywhere."
        if self.instance.pk is None:
            self.fields["bearer"].help_text = ""
            self.fields["headers"].help_text = "One a line, as “Name: value”."
        for name, field in self.fields.items():
            described = f"id_{name}_helptext" if field.help_text else ""
            wrong = f" id_{name}_error" if name in (self.errors if self.is_bound else ()) else ""
            field.widget.attrs["aria-describedby"] = f"{described}{wrong}".strip()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.instance.pk is None and own_services(self.instance.owner).count() >= MOST_OWN:
            raise ValidationError(
                f"You have {MOST_OWN} services, which is the most. Remove one first."
            )
        return cleaned

    def _check_url(self, cleaned: dict[str, Any]) -> None:
        url = cleaned.get("url", "")
        if builtin.is_builtin(url):
            self.add_error("url", "The URL must begin with https://.")
            return
        try:
            check_url(url, allows_private=False)
        except OperationError as error:
            if url:
                self.add_error("url", error.message)

    def keep(self) -> Service | None:
        """The service as it is stored now; None where its name was taken in this moment."""
        service: Service = self.instance
        for field, value in (TERMS | service.forgotten_failure()).items():
            setattr(service, field, value)
        try:
            with transaction.atomic():
                self._store(service)
        except IntegrityError:
            self.add_error("name", "This name is taken. Choose another one.")
            return None
        return service

    def _store(self, service: Service) -> None:
        if service.pk is None:
            service.save()
        else:
            if "url" in self.changed_data:
                _forget_decisions(service)
            known = {*self.Meta.fields, *TERMS, *service.forgotten_failure()}
            service.save(update_fields=known)
        self.store_secrets()


def _forget_decisions(service: Service) -> None:
    """Another server is at the new address: what an admin granted to tools of these names was not
    for its tools. What an admin switched off stays off. Row by row, so that the log hears of it."""
    for setting in service.settings.all():
        setting.confirmed_hash, setting.level, setting.is_safe_to_repeat = "", "", False
        setting.save(update_fields=["confirmed_hash", "level", "is_safe_to_repeat"])
