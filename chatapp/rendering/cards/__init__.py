"""Values of the cards that a person answers. No decisions, no whole pages."""
