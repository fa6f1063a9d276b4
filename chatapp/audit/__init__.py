"""The tamper-evident log: entries, hash chain and evidence."""
