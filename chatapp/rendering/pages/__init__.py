"""Values of whole pages, fragments and mail."""
