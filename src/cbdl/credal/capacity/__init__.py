"""Set functions on finite spaces: envelopes, cores, Choquet integrals, the generalised Bayes' rule (paper: appendices
on the core, on Bayes' theorem for imprecise probabilities, and on bounds of entropy).
"""

from cbdl.credal.capacity.bayes import generalised_bayes, upper_posterior, upper_posterior_bound
from cbdl.credal.capacity.measure import Capacity

__all__ = ["Capacity", "generalised_bayes", "upper_posterior", "upper_posterior_bound"]
