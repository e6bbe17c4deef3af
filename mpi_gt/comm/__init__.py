"""A node and its neighbours."""
