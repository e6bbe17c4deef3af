"""Output in the terminal (rich)."""
