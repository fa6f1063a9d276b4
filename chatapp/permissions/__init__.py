"""The pure policy: risk, rules and the decision about one call. It reads no row and calls no
service."""
