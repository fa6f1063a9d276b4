"""What people answer about tool calls, the inbox and its mail; not the pages, nor the execution."""
