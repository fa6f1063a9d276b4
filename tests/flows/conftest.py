"""The browser's fixtures, which every file of these flows may name."""

from .browser import chromium, furniture, house, look, visit, whole_visit

__all__ = ["chromium", "furniture", "house", "look", "visit", "whole_visit"]
