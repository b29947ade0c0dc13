"""Two million rows in twenty files, here and on Ray: `python -m benchmarks.folders [rows of a file] [files]`.

Prints rows per processor second of the processes that answer, which other work on the machine changes little, and their
peak memory after one file and after all of them: it must not grow with the number of files. The model has the 6 priors
of `bench_tables`, 4 chains of each as extremes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.bench_tables import SIX, _trained, _write
from cbdl.engines import Ray
from cbdl.engines.pools import Actors, Here, Pool
from cbdl.tables import folders
from cbdl.tables.answering import Counts, Request
from cbdl.tables.folders import Answered, Answering, Job


class Measured(Answering):
    """Says with every answer how much memory its process has used at most, and how many microseconds the answer took;
    the counts of unknown words and of missing values carry them."""

    def __call__(self, job: Job) -> Answered:
        start = time.process_time()
        outcome = super().__call__(job)
        took = round(1e6 * (time.process_time() - start))
        assert outcome.counts is not None, outcome.error
        with open("/proc/self/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        return Answered(job, Counts(outcome.counts.rows, unknown=peak // 1024, missing=took))


def main(rows: int, files: int) -> None:
    folders.Answering = Measured  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _trained(place, "classes", SIX)
        (place / "in").mkdir()
        _write(place / "in" / "0.csv", rows)
        for i in range(1, files):
            (place / "in" / f"{i}.csv").write_bytes((place / "in" / "0.csv").read_bytes())
        torch.set_num_threads(1)
        pools: dict[str, Pool] = {"Ray, two actors": Actors(Ray(workers=2)), "here": Here()}
        for title, pool in pools.items():
            out = place / title
            todo = folders.jobs(folders.tables([str(place / "in")]), out, "parquet")
            start, each = time.perf_counter(), []
            for outcome in folders.answer(place / "model", todo, out, Request(), pool, kind="parquet"):
                assert outcome.counts is not None
                each.append(outcome.counts)
            peaks, seconds = [c.unknown for c in each], sum(c.missing for c in each) / 1e6
            print(
                f"{title}: {rows * files:,} rows in {files} files, {time.perf_counter() - start:.0f} s, "
                f"{rows * files / seconds:,.0f} rows per processor second; "
                f"peak memory {peaks[0]} MB after the first file, {max(peaks)} MB after all"
            )


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    main(*(numbers or [100_000, 20]))
