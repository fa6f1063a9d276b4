"""The version of the application; a test compares it with `pyproject.toml`."""

VERSION = "0.2.0"
