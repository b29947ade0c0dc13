"""Where cohorts are trained: in this process, in local processes, on a Ray cluster."""
