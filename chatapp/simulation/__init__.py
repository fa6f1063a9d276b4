"""Policy applied to past or invented calls: drafts, policy tests, the simulator, the ask rate,
and tools that admins run by hand."""
