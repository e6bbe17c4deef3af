"""Measuring and predicting time."""
