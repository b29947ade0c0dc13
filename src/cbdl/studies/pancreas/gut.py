"""Stomach and intestine of the S2008 model: from eating to glucose that appears in plasma.

Three of the model's 13 states; nothing in the rest of the body acts on them. While a meal is being eaten the stomach's
emptying switches within a minute, so the gut takes steps half as long as the body's: its values at their ends are just
those that the body's Runge-Kutta stages ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbdl.studies.pancreas.patients import Array, Patients

STATES = ("stomach, solid (mg)", "stomach, liquid (mg)", "intestine (mg)")
SOLID, LIQUID, INTESTINE = range(3)


@dataclass(frozen=True, eq=False)
class Emptying:
    """How fast the stomach empties while a meal of D mg is in it.

    k_gut(q) = kmax + (kmax - kmin) / 2 * (tanh(alpha (q - b D)) - tanh(beta (q - d D))),
    alpha = 5 / (2 D (1 - b)), beta = 5 / (2 D d), q the stomach's content; kmax if there was no meal (D = 0).
    """

    slope: Array
    """alpha, beta: (2, lanes)."""
    shift: Array
    """alpha b D, beta d D: (2, lanes)."""
    fastest: Array
    """kmax: (lanes,)."""
    half: Array
    """(kmax - kmin) / 2: (lanes,)."""

    @staticmethod
    def of(patients: Patients, meal: Array) -> Emptying:
        """For meals of `meal` mg: (lanes,)."""
        p = patients
        shares = 2.5 / np.stack((1 - p.b, p.d))
        eaten = meal > 0
        slope = np.where(eaten, shares / np.where(eaten, meal, 1.0), 0.0)
        # Without a meal both tanh are of 0, and the rate is kmax.
        shift = np.where(eaten, shares * np.stack((p.b, p.d)), 0.0)
        return Emptying(slope, shift, p.kmax, 0.5 * (p.kmax - p.kmin))

    def rate(self, content: Array) -> Array:
        """k_gut, 1/min: (lanes,)."""
        bend = np.tanh(self.slope * content - self.shift)
        rate: Array = self.fastest + self.half * (bend[0] - bend[1])
        return rate


class Gut:
    """Stomach and intestine of one patient per lane."""

    def __init__(self, patients: Patients) -> None:
        none = np.zeros(len(patients))
        self._decay = -np.stack((patients.kmax, none, patients.kabs))
        self._dissolving = patients.kmax
        self._appearance = patients.f * patients.kabs / patients.BW

    def _slopes(self, x: Array, eating: Array, emptying: Emptying) -> Array:
        """dx/dt per minute at the state `x` (3, lanes)."""
        solid, liquid = x[SOLID], x[LIQUID]
        emptied = emptying.rate(solid + liquid) * liquid
        out: Array = self._decay * x
        out[SOLID] += eating
        out[LIQUID] += self._dissolving * solid - emptied
        out[INTESTINE] += emptied
        return out

    def minute(self, x: Array, eating: Array, emptying: Emptying, steps: int) -> tuple[Array, Array]:
        """The state one minute after `x` (3, lanes), and the glucose that appears: (2 steps + 1, lanes), mg/kg/min.

        `eating` is in mg/min. Appearance is given at the ends and in the middle of each of the body's `steps` steps.
        """
        contents = np.zeros((2 * steps + 1, x.shape[1]))
        if x.any() or eating.any():  # an empty gut stays empty
            h = 0.5 / steps
            contents[0] = x[INTESTINE]
            for i in range(2 * steps):
                a = self._slopes(x, eating, emptying)
                b = self._slopes(x + (h / 2) * a, eating, emptying)
                c = self._slopes(x + (h / 2) * b, eating, emptying)
                d = self._slopes(x + h * c, eating, emptying)
                x = x + (h / 6) * (a + 2 * (b + c) + d)
                contents[i + 1] = x[INTESTINE]
        return x, self._appearance * contents
