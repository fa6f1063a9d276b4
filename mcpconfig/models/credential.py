"""What opens a service: bearer token, headers, client secret, each encrypted for its row."""

from django.db import models

from .service import Service


class Credential(models.Model):
    """The secrets of a service. Known to `credentials.py` only."""

    service = models.OneToOneField(Service, on_delete=models.CASCADE, related_name="credential")
    bearer = models.BinaryField(default=b"")
    headers = models.BinaryField(default=b"")
    client_secret = models.BinaryField(default=b"")
    names_a_person = models.BooleanField(default=False)
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"credentials of {self.service_id}"
