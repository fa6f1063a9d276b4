"""Plain values about services, their limits and errors. Imports no stored row."""
