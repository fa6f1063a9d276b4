"""Admin pages for members, groups, access tokens and usage."""
