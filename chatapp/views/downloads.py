"""Files that a view makes and a browser saves."""

from django.http import HttpResponse
from django.utils.http import content_disposition_header


def build_download(body: str | bytes, content_type: str, name: str) -> HttpResponse:
    """Return a file that is saved under this name. Text is sent in UTF-8; a lone surrogate, which
    UTF-8 cannot have, is written as in JSON."""
    headers = {
        "Content-Disposition": content_disposition_header(as_attachment=True, filename=name)
        or "attachment",
        "X-Content-Type-Options": "nosniff",
    }
    if isinstance(body, str):
        body = body.encode("utf-8", "backslashreplace")
    return HttpResponse(body, content_type=content_type, headers=headers)
