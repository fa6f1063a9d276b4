"""Tools in a format that each provider accepts: names, schemas, call ids. Knows no provider."""
