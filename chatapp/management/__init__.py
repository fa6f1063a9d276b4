"""The management commands of the chat. A command parses options, calls one verb and prints."""
