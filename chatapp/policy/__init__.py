"""The stored policy as values for the pure decision, and the consents of people. It decides
nothing itself; `permissions` does."""
