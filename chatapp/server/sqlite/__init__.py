"""The database backend for SQLite."""
