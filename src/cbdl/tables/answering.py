"""A table answered into a file: the one path that `cbdl predict` takes, for one table or many, here or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cbdl.tables import writing
from cbdl.tables.answers import Answers, Options, Trained, predict
from cbdl.tables.errors import many
from cbdl.tables.files import Dialect


@dataclass(frozen=True)
class Request:
    """How tables are to be answered: how the model is asked, how they are read, how many digits are written."""

    options: Options = field(default_factory=Options)
    dialect: Dialect = field(default_factory=Dialect)
    digits: int | None = None


@dataclass(frozen=True)
class Counts:
    """How many rows were answered, and how many of them are special."""

    rows: int = 0
    unknown: int = 0
    missing: int = 0
    sampled: int = 0
    abstained: int = 0
    imputed: int = 0

    def __add__(self, other: Counts) -> Counts:
        ours, theirs = asdict(self), asdict(other)
        return Counts(**{name: ours[name] + theirs[name] for name in ours})

    @property
    def gaps(self) -> bool:
        return bool(self.unknown or self.missing)

    def shown(self, options: Options) -> dict[str, int]:
        """Those that say something."""
        special = {"unknown": self.unknown, "missing": self.missing, "sampled": self.sampled}
        abstained = {} if options.phi is None else {"abstained": self.abstained}
        imputed = {"imputed": self.imputed} if self.imputed else {}
        return {"rows": self.rows} | abstained | imputed | (special if self.gaps else {})

    def said(self, options: Options, most: int) -> str:
        """The same in words; `most`: completions of a row that are answered at most."""
        words = [many(self.rows, "row")]
        if options.phi is not None:
            words.append(f"{self.abstained} abstained")
        if self.imputed:
            words.append(f"{self.imputed} with missing values that were filled in")
        if self.unknown:
            words.append(f"{self.unknown} with words that were never seen")
        if self.missing:
            words.append(f"{self.missing} with missing values")
        if self.gaps:
            words.append(f"answered by the hull over up to {most} completions")
        if self.sampled:
            words.append(f"a sample of them in {many(self.sampled, 'row')}")
        return ", ".join(words)


class Tally:
    """Counts of what passes by."""

    def __init__(self) -> None:
        self.counts = Counts()

    def watched(self, parts: Iterable[Answers]) -> Iterator[Answers]:
        for part in parts:
            rows = len(part.columns["row"])
            own = Counts(rows, part.unknown, part.missing, part.sampled, part.abstained, part.imputed)
            self.counts += own
            yield part


def answered(
    trained: Trained, table: Path, request: Request, tally: Tally, *, exact: bool = False
) -> Iterator[Answers]:
    """The answers for `table` as they are computed, as they are to be written; `exact`: with all digits if no number
    of them is asked for."""
    parts = tally.watched(predict(trained, table, request.options, request.dialect))
    if exact and request.digits is None:
        return parts
    kept = request.options.keep
    return (writing.rounded(part, request.digits, trained.target.decimals, kept) for part in parts)


def answer_file(trained: Trained, table: Path, out: Path, request: Request) -> Counts:
    """The answers for `table` as the file `out`, which appears when it is whole."""
    tally = Tally()
    exact = writing.kind_of(out) == "parquet"
    writing.write(answered(trained, table, request, tally, exact=exact), out)
    return tally.counts


def described(request: Request) -> dict[str, Any]:
    """The request by the names of its options, as JSON has it."""
    own = asdict(request.options)
    own["keep"], own["completions"] = list(own["keep"]), own.pop("most")
    return own | asdict(request.dialect) | {"digits": request.digits}
