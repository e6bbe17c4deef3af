"""Methods for directed graphs, on which no matrix need be doubly stochastic."""
