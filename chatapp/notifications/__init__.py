"""What people are told outside of open pages: push messages to their devices and posts to the
webhooks of admins. A notification only points to a card or a chat; it decides nothing."""
