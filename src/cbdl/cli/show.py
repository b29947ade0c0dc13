"""What a person reads in the terminal: the answers of the commands as small tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from cbdl.studies.part import Part
from cbdl.tables.errors import many

SCORES: dict[str, str] = {
    "accuracy": "accuracy of the decision",
    "rmse": "error of the decision (RMSE)",
    "nll": "surprise (NLL)",
    "coverage": "coverage of the region",
    "size": "size of the region",
    "unknown": "rows with words never seen",
    "missing": "rows with missing values",
    "imputed": "rows with values filled in",
    "abstained": "share of rows that abstain",
    "aleatoric": "noise in the data (aleatoric)",
    "epistemic": "ignorance (epistemic)",
    "floor": "  of it Monte Carlo noise",
}
NATS = ("nll", "aleatoric", "epistemic", "floor")
VACUOUS = 0.2
"""A share of rows whose regions say nothing, above which that is remarked."""
BETTER = (
    ("accuracy", 1.0, "more often right"),
    ("rmse", -1.0, "closer"),
    ("nll", -1.0, "less surprised"),
)
WIDE = 0.8
"""An interval of this share of all that training outcomes span says next to nothing."""

MOST = 12
"""Values of a setting that are shown; of more, how many there are."""


class _Pipe(Console):
    """A console that leaves it to the command what a reader that has seen enough means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console() -> Console:
    return _Pipe(highlight=False, soft_wrap=False, markup=False)


def _pairs(title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = Table(
        title=title, title_justify="left", show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    _console().print(table)


def number(x: float) -> str:
    """Four digits that count; of large numbers all that are before the point.

    >>> number(0.98765), number(212.3456), number(51234.5), number(2e12)
    ('0.9877', '212.3', '51234', '2e+12')
    """
    return f"{x:.0f}" if 1e4 <= abs(x) < 1e9 else f"{x:.4g}"


def score_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Scores with their names in words, those of the simplest models beside them."""
    rows = []
    simple: Mapping[str, Mapping[str, Any]] = values.get("baselines") or {}
    for name, words in SCORES.items():
        if values.get(name) is None or (name in ("unknown", "missing") and not values[name]):
            continue
        unit = " nats" if name in NATS else f" (asked: {1 - values['alpha']:g})" if name == "coverage" else ""
        others = [
            f"{other} {number(own[name])}" for other, own in simple.items() if own.get(name) is not None
        ]
        beside = f"  ({', '.join(others)})" if others else ""
        rows.append((words, number(values[name]) + unit + beside))
    return rows


def remarks(values: Mapping[str, Any]) -> list[str]:
    """What a person should not overlook in the scores."""
    lines = []
    vacuous, size, span = (values.get(name) for name in ("vacuous", "size", "range"))
    if vacuous is not None and vacuous > VACUOUS:
        lines.append(
            f"For {vacuous:.0%} of the rows the region is everything that there is: it says nothing there."
        )
    elif span and size is not None and size > WIDE * span:
        lines.append(
            "The mean interval is about as long as all training outcomes span: it says next to nothing."
        )
    covered, asked = values.get("coverage"), 1 - values["alpha"]
    # three standard errors of a share: chance is out
    if covered is not None and asked - covered > 3 * math.sqrt(asked * (1 - asked) / values["rows"]):
        lines.append(
            f"The region covers {covered:.1%} of these outcomes, less than the {asked:.0%} asked for."
        )
    for other, own in (values.get("baselines") or {}).items():
        better = [words for name, sign, words in BETTER if _less(sign, values.get(name), own.get(name))]
        if better:
            lines.append(f"The {other} is {' and '.join(better)} than the model on these rows.")
    return lines


def _less(sign: float, value: float | None, other: float | None) -> bool:
    """Whether the other score, of which more is better if the sign is positive, is the better one."""
    return value is not None and other is not None and sign * other > sign * value


def _scored(values: Mapping[str, Any], *, held_out: bool) -> None:
    of = values.get("of", values["rows"])
    some = f"{values['rows']} of " if of != values["rows"] else ""
    what = f" that {'was' if of == 1 else 'were'} held out" if held_out else ""
    _pairs(f"{some}{many(of, 'row')}{what}", score_rows(values))
    for line in remarks(values):
        _console().print(line)


def scores(values: Mapping[str, Any]) -> None:
    _scored(values, held_out=False)


def _fallen(summary: Mapping[str, Any]) -> str:
    """Which members the data refuted, which of them stay, and whose training failed."""
    dropped, spared, failed = (summary[name] for name in ("dropped", "spared", "failed"))
    said = []
    for words, own in (
        ("refuted by the data", [m for m in dropped if m not in failed]),
        ("left out, their training failed", [m for m in dropped if m in failed]),
    ):
        if own:
            said.append(f"{len(own)} {words}: {'; '.join(own)}")
    if spared:
        said.append(f"refuted too, but kept, since one alone knows no ignorance: {'; '.join(spared)}")
    return f" ({'; '.join(said)})" if said else ""


def _ended(summary: Mapping[str, Any]) -> str:
    """How the training ended."""
    rhat = "" if summary["rhat"] is None else f" (largest R-hat {summary['rhat']:.2f})"
    failed = [m for m in summary["failed"] if m not in summary["dropped"]]
    if failed:
        return f"no: {len(failed)} failed: {'; '.join(failed)}"
    return f"yes{rhat}" if summary["converged"] else f"no{rhat}: chains do not agree; more --steps may help"


def fit(summary: Mapping[str, Any], *, chosen: bool) -> None:
    other = summary["other_task"]
    hint = f"  (by its values; else --task {other})" if chosen and other else ""
    gaps = f"; in {many(summary['imputed'], 'row')} values were filled in" if summary["imputed"] else ""
    rows = [
        ("model", summary["model"]),
        ("task", f"{summary['task']} of {summary['target']}{hint}"),
        ("trained on", f"{many(summary['rows'], 'row')}, {many(summary['features'], 'feature')}{gaps}"),
        (
            "members",
            many(summary["members"], "Bayesian network") + _fallen(summary),
        ),
        ("converged", _ended(summary)),
    ]
    if summary["classes"]:
        rows.append(("classes", shortened(summary["classes"])))
    _pairs("Trained", rows)
    held_out = summary["held_out"]
    _console().print()
    if held_out["rows"]:
        _scored(held_out, held_out=True)
    else:
        _console().print("No row was held out: nothing here says how good the model is on new rows.")
    _console().print(f"\nNext: cbdl predict {summary['model']} new.csv --out pred.csv")


def info(summary: Mapping[str, Any]) -> None:
    extra = summary["extra"] or {}
    size = sum(entry.get("bytes", 0) for entry in summary["files"].values())
    state = "whole and unaltered" if summary["checked"] else "not checked: it needs networks of your own"
    rows = [("files", f"{len(summary['files'])}, {size / 1e6:.1f} MB, {state}")]
    if "columns" in extra:  # of a table
        rows += [
            ("task", f"{extra['task']} of {extra['target']}"),
            ("columns", shortened([f"{c['name']} ({_kind(c)})" for c in extra["columns"]], 12)),
        ]
        if extra["classes"]:
            rows.append(("classes", shortened(extra["classes"])))
    if "estimator" in extra:
        own = extra["estimator"]
        rows.append(("estimator", f"{own['kind']} of {many(own['features'], 'feature')}"))
    rows += [
        ("trained on", f"{summary['rows']:g} rows, seed {summary['seed']}"),
        ("members", f"{summary['members']}{_draws(summary.get('kept'))}"),
        *(("calibrated on", text) for text in _calibrations(extra.get("conformity") or {})),
        *((f"prior {k}", spelled(p)) for k, p in enumerate(summary["priors"])),
        *((f"likelihood {s}", _likelihood(q)) for s, q in enumerate(summary["likelihoods"])),
        ("method", spelled(summary["method"])),
        ("written by", f"cbdl {summary['cbdl']}, torch {summary['torch']}, format {summary['format']}"),
    ]
    _pairs(summary["model"], rows)
    held_out = extra.get("held_out", {})
    if held_out.get("rows"):
        _console().print()
        _scored(held_out, held_out=True)


def _draws(kept: Mapping[str, Any] | None) -> str:
    """How many draws there are of every member that has chains."""
    return "" if kept is None else f", each with {kept['draws']} draws of {many(kept['chains'], 'chain')}"


def _calibrations(levels: Mapping[str, Any]) -> list[str]:
    """Where the levels of calibrated regions come from; forms of predictives that agree in it say it once."""
    return list(dict.fromkeys(f"{own['outcomes']} outcomes ({own['how']})" for own in levels.values()))


def _likelihood(described: Mapping[str, Any]) -> str:
    """Its noise, and its network."""
    return f"{spelled({k: v for k, v in described.items() if k != 'net'})}; {spelled(described['net'])}"


def _kind(column: Mapping[str, Any]) -> str:
    return f"{len(column['levels'])} levels" if column["kind"] == "category" else str(column["kind"])


def spelled(described: Any) -> str:
    """A part of a manifest in one line: its type and settings; of many values, how many.

    >>> spelled({"type": "prior.Normal", "loc": 0.0, "scale": 2.0})
    'Normal loc=0 scale=2'
    >>> spelled({"name": "mlp", "hidden": [16, 16], "quantiles": [[], [0.5] * 32]})
    'mlp hidden=16,16 quantiles=(32 values)'
    >>> spelled({"name": "mlp", "hidden": [16, 16], "quantiles": [[], []]})
    'mlp hidden=16,16'
    """
    if isinstance(described, Mapping):
        own = {k: v for k, v in described.items() if k not in ("type", "name")}
        settings = own.pop("settings", {})
        own |= settings if isinstance(settings, Mapping) else {}
        name = str(described.get("name", described.get("type", ""))).rpartition(".")[2]
        own = {k: v for k, v in own.items() if not isinstance(v, list) or _count(v)}
        return " ".join([name, *(f"{k}={spelled(v)}" for k, v in own.items())])
    if isinstance(described, list):
        count = _count(described)
        return f"({count} values)" if count > MOST else ",".join(map(spelled, described))
    return f"{described:g}" if isinstance(described, float) else str(described)


def _count(values: list[Any]) -> int:
    return sum(_count(v) if isinstance(v, list) else 1 for v in values)


def shortened(names: Sequence[str], most: int = 20) -> str:
    """Names in a line, the first of them if they are many.

    >>> shortened(["a", "b", "c"], 2)
    'a, b, ... (3 in all)'
    """
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join(names[:most]) + f", ... ({len(names)} in all)"


# --- the demo -----------------------------------------------------------------------------------------------


def part(shown: Part) -> None:
    """One part of the demo: a title, what was done, a table, and what to see in it."""
    console = _console()
    console.print()
    console.print(shown.title, style="bold")
    console.print(shown.text)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, name in enumerate(shown.header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in shown.rows:
        table.add_row(*row)
    console.print(table)
    console.print()
    for line in shown.lessons:
        console.print(line)
