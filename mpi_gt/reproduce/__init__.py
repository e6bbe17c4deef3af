"""The experiments of the paper, and its claims about them."""
