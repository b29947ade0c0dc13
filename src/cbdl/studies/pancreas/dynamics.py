"""Glucose and insulin of the S2008 model of type 1 diabetes, for many patients at once: ten differential equations.

Dalla Man, Rizza and Cobelli (2007), with insulin under the skin as in Kovatchev et al. (2009); food is in
`cbdl.studies.pancreas.gut`. A state is an array (10, lanes), float64, with the rows that `STATES` names. Nearly every
row is a compartment that loses in proportion to what it holds and is filled from one other; these are a few block
operations, and only what is left is written row by row. At a few hundred lanes the cost is the number of numpy calls,
not their arithmetic.
"""

from __future__ import annotations

import numpy as np

from cbdl.studies.pancreas.patients import Array, Patients

STATES = (
    "glucose, plasma (mg/kg)",
    "glucose, tissue (mg/kg)",
    "insulin, plasma (pmol/kg)",
    "insulin action on use (pmol/L)",
    "insulin, delayed once (pmol/L)",
    "insulin action on production (pmol/L)",
    "insulin, liver (pmol/kg)",
    "insulin, first depot (pmol/kg)",
    "insulin, second depot (pmol/kg)",
    "glucose under the skin (mg/kg)",
)
PLASMA, TISSUE, INSULIN, USE, DELAYED, PRODUCTION, LIVER, FIRST, SECOND, SKIN = range(10)

GLUCOSE = [PLASMA, TISSUE, SKIN]
"""The states that scale with the initial glucose."""

_SOURCE = np.array([TISSUE, PLASMA, LIVER, INSULIN, INSULIN, DELAYED, INSULIN, FIRST, FIRST, PLASMA])
"""Which compartment fills each one (itself, with gain 0, where none does)."""


def basal_state(patients: Patients) -> Array:
    """The state (10, lanes) that basal insulin keeps."""
    p = patients
    none = np.zeros(len(p))
    return np.stack((p.Gpb, p.Gtb, p.Ipb, none, p.Ib, p.Ib, p.Ilb, p.isc1ss, p.isc2ss, p.Gpb))


class Body:
    """Glucose and insulin of one patient per lane, with constants arranged for block operations."""

    def __init__(self, patients: Patients) -> None:
        p = patients
        none = np.zeros(len(p))
        insulin = (p.m2 + p.m4, p.p2u, p.ki, p.ki, p.m1 + p.m30, p.ka1 + p.kd, p.ka2)
        self._loss = np.stack((p.k1, p.k2, *insulin, p.ksc))
        insulin = (p.m1, p.p2u / p.Vi, p.ki / p.Vi, p.ki, p.m2, none, p.kd)
        self._gain = np.stack((p.k2, p.k1, *insulin, p.ksc))
        self._constant = np.zeros_like(self._gain)
        self._constant[PLASMA] = -p.Fsnc
        self._constant[USE] = -p.p2u * p.Ib
        self._patients = p

    def _slopes(self, x: Array, inflow: Array, appearance: Array) -> Array:
        """dx/dt per minute at the state `x` (10, lanes), with `inflow` (10, lanes) and glucose from food (lanes,).

        Glucose in plasma that has come down to 0 stays there: brain and nerves draw a constant amount, so the equations
        would take it below. No other compartment can become negative.
        """
        p = self._patients
        out: Array = x[_SOURCE]
        out *= self._gain
        out += inflow
        out -= self._loss * x

        plasma, tissue = x[PLASMA], x[TISSUE]
        produced = np.maximum(p.kp1 - p.kp2 * plasma - p.kp3 * x[PRODUCTION], 0.0)
        excreted = p.ke1 * np.maximum(plasma - p.ke2, 0.0)
        out[PLASMA] += produced + appearance - excreted
        out[PLASMA] *= plasma > 0
        out[TISSUE] -= (p.Vm0 + p.Vmx * x[USE]) * tissue / (p.Km0 + tissue)
        out[INSULIN] += p.ka1 * x[FIRST] + p.ka2 * x[SECOND]
        return out

    def minute(self, x: Array, insulin: Array, appearance: Array) -> Array:
        """The state one minute after `x` (10, lanes): classical Runge-Kutta steps.

        `insulin` in pmol/kg/min is held; `appearance` is the glucose from food at the ends and in the middle of each
        step, mg/kg/min: (2 steps + 1, lanes).
        """
        h = 2.0 / (len(appearance) - 1)
        inflow = self._constant.copy()
        inflow[FIRST] = insulin
        for i in range(0, len(appearance) - 1, 2):
            start, middle, end = appearance[i : i + 3]
            a = self._slopes(x, inflow, start)
            b = self._slopes(x + (h / 2) * a, inflow, middle)
            c = self._slopes(x + (h / 2) * b, inflow, middle)
            d = self._slopes(x + h * c, inflow, end)
            b += c
            b *= 2.0
            b += a
            b += d
            x = x + (h / 6) * b
            np.maximum(x[PLASMA], 0.0, out=x[PLASMA])
        return x
