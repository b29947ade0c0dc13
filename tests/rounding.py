"""Equal to rounding: what the project promises wherever it does not promise equal bits.

Bits depend on the kernel that is picked for a shape, an alignment, a processor and a number of threads. A sum of n
terms, in whatever order, is off by at most (n - 1) eps times the sum of their absolute values (Higham, *Accuracy and
Stability of Numerical Algorithms*, section 4.2).
"""

import numpy as np


def assert_same(actual, expected, *, terms=64, dtype=np.float32):
    """Arrays that differ by the order in which sums of `terms` numbers of their size were taken, twice over."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2 * terms * np.finfo(dtype).eps * size)
