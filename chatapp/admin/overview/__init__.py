"""The overview of the admin: what needs an admin now, and charts of the last days."""
