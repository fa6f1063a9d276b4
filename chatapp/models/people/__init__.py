"""Rows of members, access tokens, signals and reminders."""
