"""The trace: exchanges are masked, stored, shortened by age and number, and formatted. Reads no
live connection."""
