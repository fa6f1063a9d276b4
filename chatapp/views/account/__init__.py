"""Views of a person's own pages: sign-in, memory, guidance, services, tokens, usage and log. No
chat."""
