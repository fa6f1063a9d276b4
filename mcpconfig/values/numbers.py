"""Numbers as text, from an address, a form or a program."""

# Each number of so many digits fits into 64 bits, which is what databases store.
MOST_DIGITS = 18


def read_number(text: str) -> int | None:
    """Return the whole number in the text, such as the id of a row, or None for other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return int(text) if is_number else None
