"""The state of the installation: versions, work, storage, the log, keys and settings."""
