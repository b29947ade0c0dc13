"""Where tensors live: a device that this machine has, or words that say which it has."""

from __future__ import annotations

import torch


def check_device(device: torch.device | str, name: str = "device") -> torch.device:
    """`device` as torch knows it; a ValueError unless a tensor can be put there and read back."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).tolist()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{name} is {str(device)!r}, which cannot be used here ({reason}); there is {', '.join(available())}"
        ) from error
    return place


def available() -> list[str]:
    """The devices of this machine that this build of torch can use."""
    names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    return [*names, "mps"] if torch.backends.mps.is_available() else names
