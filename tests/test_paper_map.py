"""The paper map is complete, and every function and test that it names exists."""

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "paper-map.md").read_text()

LABELS = [
    "rem_fin_1",
    "extrema_gen_lem",
    "ihdr-def",
    "tab_ex",
    "hdr-def",
    "fig:hdr_ex",
    "gen_entr_lem",
    "algo-1",
    "breve-p",
    "approx-au-cbdl",
    "approx-eu-cbdl",
    "dist_lemma",
    "walley_core",
    "L_scr",
    "main1",
    "ineq_main",
    "lemma_ccv",
    "choq_int_and_cvx_lp",
    "thm_rem_bounds_entropy",
    "no_belief",
    "post_pred_app",
    "alea_check",
    "ihdr_class",
    "cs_def",
    "dist_diff_dim",
    "dist_lemma2",
    "dist_lemma3",
    "eq_lemma1",
    "eq_pre_lemma",
    "eq_lemma4",
    "eq_lemma_comb",
    "ccv_gen",
    "easy_ineq",
    "sup_sum_inequality",
    "sup_minus",
    "log_incr",
    "inf_uncount",
    "sup_sum_ineq2",
    "sup_prod",
    "sup_minus2",
    "log_incr2",
]
"""Labels of the paper's definitions, propositions, theorems, lemmas, remarks, equations and algorithm."""


def test_every_labelled_statement_of_the_paper_is_listed():
    listed = [label for label in LABELS if re.search(rf"(?<![\w-]){re.escape(label)}(?![\w-])", TEXT)]
    assert listed == LABELS


def resolve(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AttributeError(name)


ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and "open:" not in line]


def test_every_function_named_exists():
    named = sorted({name for row in ROWS for name in re.findall(r"`(cbdl\.[\w.]+)`", row)})
    assert len(named) > 50
    assert all(
        resolve(name) is not None for name in named
    )  # an AttributeError names the one that is not there


def test_every_test_named_exists():
    named = sorted(set(re.findall(r"`(tests/[\w/.]+)::(\w+)`", TEXT)))
    assert len(named) > 50
    texts = {file: (ROOT / file).read_text() for file, _ in named}
    assert [(file, test) for file, test in named if f"def {test}(" not in texts[file]] == []


def test_every_row_names_a_function_and_a_test_or_says_why_not():
    rows = [row for row in TEXT.splitlines() if row.startswith("| ") and not row.startswith("| place")]
    rows = [row for row in rows if not row.startswith("| ---")]
    for row in rows:
        _, _, function, test = (cell.strip() for cell in row.strip("|").split(" | "))
        assert ("tests/" in test) == (not function.startswith(("open", "no computation"))), row
