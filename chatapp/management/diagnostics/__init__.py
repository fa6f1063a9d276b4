"""The checks of `manage.py doctor`. Each check returns findings and changes nothing."""
