"""Stored grants, sign-ins in progress, and the lock around renewals."""
