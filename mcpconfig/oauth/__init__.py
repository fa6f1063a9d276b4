"""OAuth sign-in to services, in two web requests; renewal, revocation and removal. Sends no MCP
message but one discovery request."""
