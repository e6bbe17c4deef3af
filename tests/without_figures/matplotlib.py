"""A stand-in that most runs of the tests import instead of matplotlib, to draw nothing."""

raise ImportError(
    "matplotlib is left out of this test: its runs are started with FIGURES if they are to draw"
)
