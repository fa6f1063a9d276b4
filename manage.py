#!/usr/bin/env python
"""Runs the project's commands: `python manage.py help` lists them."""

import os
import sys

from chatapp.server.start import run

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatapp.settings")
    run(sys.argv)
