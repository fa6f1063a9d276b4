"""Chats of other programs: read from an exported file, listed for a person to choose from, and
stored as chats of their own. No HTTP and no HTML here."""
