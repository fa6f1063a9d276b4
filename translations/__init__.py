"""Sentences in other languages: extracted from the sources, kept in `locale/`, compiled for Django.

Only developers need this package and Babel. The server reads the compiled `.mo` files.
"""
