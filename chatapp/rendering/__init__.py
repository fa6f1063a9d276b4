"""Values in, HTML or a file out. No module here queries the database."""
