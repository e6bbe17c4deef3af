"""Results of runs, read back from their directories: tables of metrics and summaries."""
