"""Authorization servers: discovery, registration, challenges and token requests."""
