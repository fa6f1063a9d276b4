"""The chat's additions to the admin pages of services and tools."""
