"""Thin HTTP views: check access, call one function, render one template. No product rules here."""
