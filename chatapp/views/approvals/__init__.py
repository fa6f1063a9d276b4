"""Views that show what waits for a person and accept the answers. No view here decides by
itself."""
