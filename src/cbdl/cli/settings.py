"""What all commands share in how they are shown."""

from __future__ import annotations

from typing import Any

SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
