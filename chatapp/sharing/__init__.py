"""Read-only links to a chat: made, opened, updated, revoked, and continued as a copy. No HTTP and
no HTML here."""
