"""Values in, HTML out. No module here queries the database."""
