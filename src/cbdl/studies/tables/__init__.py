"""The default model on real tables, beside scikit-learn, deep ensembles, bde, MAPIE and published numbers.

`CBDL_DATA=... cbdl study tables --profile cpu --out DIR`; `CBDL_BDE_PYTHON` names an interpreter that has bde. What was
measured is kept in DIR/runs, so that the same command goes on after it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from cbdl.studies.part import Part
from cbdl.studies.study import Context, Study
from cbdl.studies.tables import pages, sine
from cbdl.studies.tables.goals import goals
from cbdl.studies.tables.runs import Runs, chosen, measured, of_sine
from cbdl.studies.tables.sources import sources


def parts(context: Context) -> Iterator[Part]:
    """A part per table, then summaries over all of them, and the goals."""
    smoke = context.profile == "smoke"
    there, text = chosen(context)
    if text:
        context.note(text)
    runs: list[Runs] = []
    for source in there:
        runs.append(measured(context, source))
        yield pages.of_table(runs[-1], smoke)
    for kind in ("real", "classes"):
        if any(own.kind == kind and not own.source.alone for own in runs):
            yield pages.of_regions(runs, kind)
    published = pages.of_published(runs)
    if published is not None:
        yield published
    if runs:
        yield pages.of_foreign(runs)
        yield pages.of_seconds(runs)
    waves = of_sine(context) if context.wants(sine.NAME) else None
    if waves is not None:
        yield pages.of_sine(waves)
    yield pages.of_goals(goals(runs, waves), text)


STUDY = Study(
    "tables",
    "The default model on tables, beside others",
    ("smoke", "cpu", "paper"),
    parts,
    choices=(*sources(), sine.NAME),
)
