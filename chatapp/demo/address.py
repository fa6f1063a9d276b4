"""The path of the demo service and its token. Imports nothing heavy."""

from django.utils.crypto import salted_hmac

PATH = "/demo/mcp"


def compute_token() -> str:
    """Return the bearer token of the demo service. Every process computes the same one."""
    return salted_hmac("chatapp.demo", "bearer of /demo/mcp", algorithm="sha256").hexdigest()
