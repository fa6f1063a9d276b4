"""Accounts: sign-in by providers, second factors, sessions, and what a person may do with their
own account. Passwords, links and the limits on both are in `people`."""
