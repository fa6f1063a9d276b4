"""What a person's file is and says: known by its bytes, read without trusting them."""
