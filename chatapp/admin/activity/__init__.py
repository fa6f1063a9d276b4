"""Admin pages of past activity: conversations, feedback, turns, approvals, manual runs, tasks, the
log."""
