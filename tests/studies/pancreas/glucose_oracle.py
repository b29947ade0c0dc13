"""The reference trajectories, made with simglucose 0.2.11 (MIT): python tests/studies/pancreas/glucose_oracle.py

It needs an environment of its own: pip install "setuptools<81" simglucose==0.2.11. The result is glucose_reference.npz.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from glucose_scenarios import EVERY, MINUTES, SCENARIOS

REFERENCE = Path(__file__).with_name("glucose_reference.npz")


def patient_names():
    return [f"{group}#{i:03d}" for group in ("adolescent", "adult", "child") for i in range(1, 11)]


def trajectory(name, glucose, doses, food):
    """Glucose at the end of every minute, (minutes,), by simglucose's patient."""
    from simglucose.patient.t1dpatient import Action, T1DPatient

    table = T1DPatient.withName(name)._params
    # The same numbers as plain attributes: simglucose spends nine tenths of its time looking them up in pandas.
    parameters = SimpleNamespace(**table.to_dict())
    state = table.iloc[2:15].to_numpy(dtype=float)
    if glucose is not None:
        state[[3, 4, 12]] *= glucose / (state[12] / parameters.Vg)
    patient = T1DPatient(parameters, init_state=state)
    basal = parameters.u2ss * parameters.BW / 6000
    trace = np.empty(len(doses))
    for minute, (dose, grams) in enumerate(zip(doses, food, strict=True)):
        patient.step(Action(CHO=grams, insulin=dose * basal))
        trace[minute] = patient.observation.Gsub
    return trace


def sensor_noise(seed, samples):
    """Noise of simglucose's GuardianRT sensor, mg/dL: (samples,)."""
    from simglucose.sensor.cgm import CGMSensor

    noise = CGMSensor.withName("GuardianRT", seed=seed)._noise_generator
    return np.array([next(noise) for _ in range(samples)])


def main():
    arrays = {}
    for scenario, make in SCENARIOS.items():
        day = make()
        assert len(day[1]) == len(day[2]) == MINUTES
        traces = [trajectory(name, *day)[EVERY - 1 :: EVERY] for name in patient_names()]
        arrays[scenario] = np.array(traces, dtype=np.float32)
    arrays["noise"] = np.array([sensor_noise(seed, 90) for seed in range(3)])
    np.savez_compressed(REFERENCE, **arrays)


if __name__ == "__main__":
    main()
