"""The contact sheet: every corruption at every severity, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cbdl.data.corruptions import CORRUPTIONS, corrupt
from cbdl.data.images import Images


def contact_sheet(figure: Any, images: Images, names: Sequence[str] | None = None, seed: int = 0) -> None:
    """A row per corruption, on the first of `images`: clean, then severities 1 to 5. For `cbdl.plots.save`.

    - `figure`: the matplotlib Figure to draw on
    - `names`: of corruptions; None: all
    - `seed`: of the random numbers; the same seed gives the same answer
    """
    one = images[:1]
    chosen = (
        [n for n in CORRUPTIONS if n != "saturate" or one.x.shape[1] == 3] if names is None else list(names)
    )
    figure.set_size_inches(6.2, 0.86 * len(chosen))
    axes = figure.subplots(len(chosen), 6, squeeze=False)
    for panel, title in zip(axes[0], ("clean", 1, 2, 3, 4, 5), strict=True):
        panel.set_title(title, fontsize=8)
    for name, row in zip(chosen, axes, strict=True):
        shown = [one, *(corrupt(one, name, severity, seed) for severity in (1, 2, 3, 4, 5))]
        for panel, picture in zip(row, shown, strict=True):
            panel.imshow(picture.x[0].permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=255)
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(name.replace("_", " "), rotation=0, ha="right", va="center", fontsize=8)
