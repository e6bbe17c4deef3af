"""Figures, drawn with matplotlib (the extra `plot`)."""


def available() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True
