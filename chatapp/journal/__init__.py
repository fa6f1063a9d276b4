"""Durable events of running turns: the journal, group commit, leases and database retries."""
