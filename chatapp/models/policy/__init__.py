"""Rows of policy, tool switches and the audit log."""
