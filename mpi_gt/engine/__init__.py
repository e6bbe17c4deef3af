"""One run on its ranks."""
