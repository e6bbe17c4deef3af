"""The engine: one run on its ranks, from the configuration to the last file."""
