"""(Predictive) Uncertainty Quantification: the paper's study of images, with the best of the field beside it.

sources -> members -> answers -> lines -> measures -> tables, claims, goals

`CBDL_DATA=... cbdl study images --train mnist --profile cpu --out DIR`. Trained members are kept in DIR/members, what
they answered and what was measured in DIR/runs, so that the same command goes on after it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from cbdl.studies.goal import of_goals
from cbdl.studies.images import pages, runs, verdicts
from cbdl.studies.images.members import LINE_UPS
from cbdl.studies.images.plans import PLANS
from cbdl.studies.images.sources import SOURCES
from cbdl.studies.images.tables import Table
from cbdl.studies.part import Part
from cbdl.studies.study import Context, Study


def parts(context: Context) -> Iterator[Part]:
    """Source by source: clean, corrupted and foreign rows; then detection on all pairs, claims and goals."""
    sources, about = runs.chosen(context)
    if about:
        context.note(f"\n{about}")
    table = Table(tuple(runs.results(context, PLANS[context.profile], sources)))
    for source in table.sources:
        yield pages.of_scores(table, source)
        for measure in ("epistemic", "aleatoric"):
            for group in pages.groups(table, source):
                yield pages.of_corrupted(table, source, measure, group)
        yield pages.of_rejection(table, source)
        yield pages.of_noises(table, source)
        yield pages.of_foreign(table, source)
    for measure in ("epistemic", "aleatoric", "total"):
        yield pages.of_detection(table, measure)
    yield pages.of_measures(table)
    claims = list(verdicts.claims(table))
    if claims:
        text = "Of the mean-field members, on the data, networks and epochs of this profile."
        yield of_goals(claims, text, "claims", "The paper's claims, with the paper's recipe")
    text = "Of ours. The deterministic network is the mean of the deep ensemble's members."
    yield of_goals(list(verdicts.goals(table)), text)


STUDY = Study(
    "images",
    "Uncertainty of images: corrupted, foreign, rejected",
    ("smoke", "cpu", "paper"),
    parts,
    choices=(*SOURCES, *map(runs.choice, LINE_UPS)),
    repeated=True,
)
