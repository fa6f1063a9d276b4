"""Admin pages for model providers and models."""
