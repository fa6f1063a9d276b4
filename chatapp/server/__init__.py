"""How a process runs: its runtime, serving, request bodies, static files, environment and database
access. Imports nothing of the chat."""
