"""Where the demo service is mounted, and the token that opens it. Imports nothing heavy."""

from django.utils.crypto import salted_hmac

PATH = "/demo/mcp"


def token() -> str:
    """The bearer token that the demo service asks for. Every process can compute it."""
    return salted_hmac("chatapp.demo", "bearer of /demo/mcp", algorithm="sha256").hexdigest()
