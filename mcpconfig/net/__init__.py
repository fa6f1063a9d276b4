"""HTTP connections: vetted addresses, TCP streams, limits and records of exchanges. Knows no MCP
message but JSON-RPC ids."""
