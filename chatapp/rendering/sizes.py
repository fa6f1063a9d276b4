"""Numbers of bytes in words."""

from django.template.defaultfilters import filesizeformat


def format_size(size: int) -> str:
    """Return a number of bytes with a plain space; a no-break space would be drawn as a hidden
    character."""
    return filesizeformat(size).replace("\xa0", " ")
