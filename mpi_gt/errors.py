"""The two orderly ways for a run to end badly, each with its exit code."""


class UserError(Exception):
    """The input cannot be used; the message says why and what would work."""

    exit_code = 2


class Diverged(Exception):
    """A value is no longer finite; what was measured before is kept."""

    exit_code = 3
