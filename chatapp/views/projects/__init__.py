"""Views of projects: their pages, members and files, and the project of a chat."""
