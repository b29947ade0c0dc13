"""The study as a command: `cbdl study pancreas --profile smoke|cpu|paper --out DIR`.

What was trained and controlled is kept in DIR/runs, so that the same command goes on after it was stopped.
`--only adult#009,child#004` takes other patients than those fixed in advance.
"""

from __future__ import annotations

from collections.abc import Iterator

from cbdl.studies.goal import of_goals
from cbdl.studies.pancreas import pages
from cbdl.studies.pancreas.goals import goals
from cbdl.studies.pancreas.patients import patient_names
from cbdl.studies.pancreas.plans import PLANS
from cbdl.studies.pancreas.runs import results
from cbdl.studies.pancreas.speed import measured_speed
from cbdl.studies.part import Part
from cbdl.studies.study import Context, Study


def parts(context: Context) -> Iterator[Part]:
    """Everything is run first; then the tables and figures."""
    plan = PLANS[context.profile]
    own = results(context, plan, context.only or plan.patients)
    speed = None if context.profile == "smoke" else measured_speed(own)  # a moment's run tells no time
    yield pages.of_patients(own)
    yield pages.of_members(own)
    yield pages.of_differences(own, context.seed)
    yield pages.of_regions(own)
    yield pages.of_metrics(own)
    yield pages.of_risks(own)
    yield pages.of_zones(own)
    yield pages.of_pairs(own)
    yield pages.of_traces(own)
    if speed is not None:
        yield pages.of_speed(speed)
    text = "CBDL against EBNN of the same members, over all patients; last, CBDL of ours against EBNN of the paper's."
    yield of_goals(list(goals(own, speed, context.seed)), text)


STUDY = Study(
    "pancreas",
    "Artificial pancreas control: CBDL beside an ensemble of BNNs",
    ("smoke", "cpu", "paper"),
    parts,
    choices=patient_names(),
)
