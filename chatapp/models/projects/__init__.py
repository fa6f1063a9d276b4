"""Projects: what several people's chats share, who may use it, and the text of its files."""
