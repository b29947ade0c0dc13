"""What the README and the docs show passes a user's type check."""

import re
import subprocess
import sys
from pathlib import Path

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
    command = [sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", *map(str, scripts)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
