"""The MCP SDK client of one operation: transport, protocol era, questions and error translation.
Contains no operation."""
