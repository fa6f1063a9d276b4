"""The version of what a new chat gets from an assistant or a project."""

import hashlib
import json
from typing import Any

from django.db.models import Manager


def hash_start(instructions: str, services: Manager[Any] | None, *parameters: float | None) -> str:
    """Return a hash of the instructions, the services, None for no limit, and the parameters. A
    page sends it back, so that nobody begins a chat with what they were not shown."""
    keys = sorted(services.values_list("pk", flat=True)) if services is not None else []
    content = [instructions, services is not None, keys, *parameters]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
