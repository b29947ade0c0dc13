"""The default model on real tables, beside scikit-learn, deep ensembles, bde, MAPIE and published numbers.

`CBDL_DATA=... cbdl study tables --profile cpu --out DIR`; `CBDL_BDE_PYTHON` names an interpreter that has bde. What was
measured is kept in DIR/runs, so that the same command goes on after it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from cbdl.studies.part import Part
from cbdl.studies.study import Context, Study
from cbdl.studies.tables import goals, pages, runs, sine, sources


def parts(context: Context) -> Iterator[Part]:
    """A part per table, then summaries over all of them, and the goals."""
    smoke = context.profile == "smoke"
    chosen, about = runs.chosen(context)
    if about:
        context.note(about)
    done: list[runs.Runs] = []
    for source in chosen:
        done.append(runs.measured(context, source))
        yield pages.of_table(done[-1], smoke)
    for kind in ("real", "classes"):
        if any(own.kind == kind and not own.source.alone for own in done):
            yield pages.of_regions(done, kind)
    published = pages.of_published(done)
    if published is not None:
        yield published
    if done:
        yield pages.of_foreign(done)
        yield pages.of_seconds(done)
    waves = runs.of_sine(context) if context.wants(sine.NAME) else None
    if waves is not None:
        yield pages.of_sine(waves)
    yield pages.of_goals(goals.goals(done, waves), about)


STUDY = Study(
    "tables",
    "The default model on tables, beside others",
    ("smoke", "cpu", "paper"),
    parts,
    choices=(*sources.sources(), sine.NAME),
)
