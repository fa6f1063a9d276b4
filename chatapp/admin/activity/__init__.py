"""Admin pages of past activity: conversations, turns, approvals, manual runs, tasks and the log."""
