"""One folder for each model SDK, all with the same events. Only `access` reads stored rows."""
