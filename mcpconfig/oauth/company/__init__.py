"""Sign-in to services with a company's identity provider."""
