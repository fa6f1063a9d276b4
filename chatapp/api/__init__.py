"""Access of programs: tokens, governed calls and chats, the MCP server. It has no HTTP; that is
in `views/api`."""
