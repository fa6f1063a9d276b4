"""What an uploaded file is and contains: recognised by its bytes and read without trust. It
stores nothing."""
