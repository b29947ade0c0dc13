"""The 30 virtual patients of the UVa/Padova simulator, and batches of them.

A patient is a row of `patients.csv`: the constants of the S2008 model (Dalla Man, Rizza and Cobelli 2007; Kovatchev
et al. 2009) and its basal state. A `Patients` holds one patient per lane of a simulation; one may fill many lanes.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

PMOL_PER_UNIT = 6000.0
"""Insulin: picomoles in a unit."""


@dataclass(frozen=True, eq=False)
class Patients:
    """Constants of one patient per lane, each an array (lanes,); letters are those of the S2008 model."""

    names: tuple[str, ...]
    BW: Array
    """Body weight, kg."""

    # Glucose: plasma and tissue.
    Vg: Array
    """Distribution volume of glucose, dL/kg."""
    k1: Array
    """Plasma to tissue, 1/min."""
    k2: Array
    """Tissue to plasma, 1/min."""
    kp1: Array
    """Production of the liver without glucose and insulin, mg/kg/min."""
    kp2: Array
    """How plasma glucose holds production back, 1/min."""
    kp3: Array
    """How delayed insulin holds production back, mg/kg/min per pmol/L."""
    Fsnc: Array
    """Use by brain and nerves, mg/kg/min."""
    ke1: Array
    """Renal excretion, 1/min."""
    ke2: Array
    """Plasma glucose where excretion begins, mg/kg."""
    Vm0: Array
    """Use of the tissue at basal insulin: Michaelis-Menten maximum, mg/kg/min."""
    Vmx: Array
    """How insulin raises that maximum, mg/kg/min per pmol/L."""
    Km0: Array
    """Michaelis-Menten constant, mg/kg."""
    p2u: Array
    """Rate of insulin's action on use, 1/min."""
    ki: Array
    """Rate of the delay of insulin's action on production, 1/min."""

    # Food: stomach and intestine.
    f: Array
    """Fraction of the intestine's glucose that reaches plasma."""
    kabs: Array
    """Absorption from the intestine, 1/min."""
    kmax: Array
    """Fastest emptying of the stomach, 1/min."""
    kmin: Array
    """Slowest emptying of the stomach, 1/min."""
    b: Array
    """Fraction of the meal left where emptying slows down."""
    d: Array
    """Fraction of the meal left where emptying is fast again."""

    # Insulin: plasma, liver, under the skin.
    Vi: Array
    """Distribution volume of insulin, L/kg."""
    m1: Array
    """Liver to plasma, 1/min."""
    m2: Array
    """Plasma to liver, 1/min."""
    m4: Array
    """Loss from plasma, 1/min."""
    m30: Array
    """Loss in the liver, 1/min."""
    ka1: Array
    """First depot under the skin to plasma, 1/min."""
    ka2: Array
    """Second depot to plasma, 1/min."""
    kd: Array
    """First depot to the second, 1/min."""
    ksc: Array
    """Plasma glucose to glucose under the skin, 1/min."""

    # Basal state.
    u2ss: Array
    """Basal insulin, pmol/kg/min."""
    Gpb: Array
    """Glucose in plasma, mg/kg."""
    Gtb: Array
    """Glucose in tissue, mg/kg."""
    Ib: Array
    """Insulin concentration in plasma, pmol/L."""
    Ipb: Array
    """Insulin in plasma, pmol/kg."""
    Ilb: Array
    """Insulin in the liver, pmol/kg."""
    isc1ss: Array
    """Insulin in the first depot, pmol/kg."""
    isc2ss: Array
    """Insulin in the second depot, pmol/kg."""

    # What a doctor would write down.
    CR: Array
    """Carbohydrate ratio, g/U."""
    CF: Array
    """Correction factor, mg/dL per U."""
    Age: Array
    """Years."""
    TDI: Array
    """Total daily insulin, U."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def basal(self) -> Array:
        """The insulin rate that keeps the basal state, U/min: (lanes,)."""
        return self.u2ss * self.BW / PMOL_PER_UNIT

    @property
    def basal_glucose(self) -> Array:
        """Glucose in the basal state, mg/dL: (lanes,)."""
        return self.Gpb / self.Vg

    def take(self, lanes: npt.ArrayLike) -> Patients:
        """The patients of `lanes` (indices, with repetition if wanted), in that order."""
        index = np.asarray(lanes, dtype=np.intp)
        names = tuple(self.names[i] for i in index)
        return Patients(names, **{name: getattr(self, name)[index] for name in CONSTANTS})


CONSTANTS: tuple[str, ...] = tuple(field.name for field in fields(Patients) if field.name != "names")


@cache
def _table() -> Patients:
    """All 30 patients, as in the file."""
    text = (resources.files(__package__) / "patients.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in CONSTANTS}
    for column in columns.values():
        column.flags.writeable = False  # the table is shared by all callers
    return Patients(tuple(row["name"] for row in rows), **columns)


def patient_names() -> tuple[str, ...]:
    """All names: adolescent#001 to adolescent#010, adult#001 to adult#010, child#001 to child#010."""
    return _table().names


def virtual_patients(names: str | Sequence[str] | None = None) -> Patients:
    """The patients called `names`, one per lane; all 30 if None.

    >>> virtual_patients(["adult#001", "child#004"]).BW.round(1).tolist()
    [102.3, 35.5]
    """
    table = _table()
    if names is None:
        return table
    names = [names] if isinstance(names, str) else list(names)
    if not names:
        raise ValueError("names is empty; give at least one patient, such as 'adult#001'")
    for i, name in enumerate(names):
        if name not in table.names:
            near = get_close_matches(str(name), table.names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(
                f"names[{i}] is {name!r}, which is no virtual patient{hint}; there are "
                "adolescent#001 to adolescent#010, adult#001 to adult#010 and child#001 to child#010"
            )
    return table.take([table.names.index(name) for name in names])
