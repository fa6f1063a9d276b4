"""The browser's fixtures, which every file of these flows may name."""

from .browser import chromium, house, look, visit

__all__ = ["chromium", "house", "look", "visit"]
