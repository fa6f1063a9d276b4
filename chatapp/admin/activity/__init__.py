"""Admin pages of past activity: conversations, turns, approvals, manual runs and the log."""
