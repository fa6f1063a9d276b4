"""What `manage.py doctor` looks at. Each examination returns findings and changes nothing."""
