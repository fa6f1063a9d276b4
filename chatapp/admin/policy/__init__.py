"""Admin pages for rules, limits, policy tests, the simulator and second signatures."""
