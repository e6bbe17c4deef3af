"""The files of a run directory."""
