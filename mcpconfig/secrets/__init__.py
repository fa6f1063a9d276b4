"""Secrets at rest: encryption, and the stored credentials. Opens no connection."""
