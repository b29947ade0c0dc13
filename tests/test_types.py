"""What the README and the docs show passes a user's type check."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cbdl

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[str]:
    """The Python blocks of a page, doctests without their prompts and outputs."""
    return [_plain(block) for block in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)]


def _plain(block: str) -> str:
    if not re.search(r"^\s*>>> ", block, re.M):
        return block
    kept = re.findall(r"^\s*(>>>|\.\.\.) ?(.*)$", block, re.M)
    return "\n".join(line for _, line in kept) + "\n"


def test_doctests_lose_their_prompts_and_outputs():
    assert blocks("```python\n>>> f(\n...     1)\n2\n```\n") == ["f(\n    1)\n"]


def test_the_python_of_every_page_type_checks(tmp_path):
    pages = {page: "\n".join(blocks(page.read_text())) for page in PAGES}
    scripts = []
    for page, text in pages.items():
        if text:
            scripts.append(tmp_path / f"{re.sub(r'[^a-z]', '_', page.stem.lower())}.py")
            scripts[-1].write_text(text)
    assert len(scripts) >= 2
    # other packages count as unknown: what is checked is how the pages use cbdl, in seconds instead of minutes
    options = ["--config-file=", "--no-site-packages", "--ignore-missing-imports", "--check-untyped-defs"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, scripts)]
    environment = {**os.environ, "MYPYPATH": str(Path(cbdl.__file__).parent.parent)}
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert "checked" in run.stdout or "Success" in run.stdout, run.stdout + run.stderr
    names = tuple(script.name for script in scripts)
    wrong = [line for line in run.stdout.splitlines() if line.startswith(names) and " error: " in line]
    assert not wrong, "\n".join(wrong)
