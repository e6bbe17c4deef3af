"""Users' own classes: tried out before a run, and guarded while it iterates."""
