"""Programs that measure what things cost: `python -m benchmarks.NAME`, on a machine that is not
busy. With `--smoke` each takes a few seconds, to check that it works."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

# Before any benchmark imports a model, in whatever order its imports are sorted.
django.setup()
