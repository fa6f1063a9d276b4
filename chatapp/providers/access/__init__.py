"""Which models a person may use, with whose account, and what they cost."""
