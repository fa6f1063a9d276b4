"""The formats of exported files: one module each, which reads one chat of a file as plain
values."""
