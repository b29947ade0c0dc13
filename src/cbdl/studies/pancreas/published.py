"""The paper's table of the pancreas study: Perf_diff at 1 - alpha = 0.9, 0.95 and 0.99."""

PERF_DIFF = {"seeds": (-0.058, 0.055, 0.006), "architectures": (-0.066, 0.009, 0.003)}
