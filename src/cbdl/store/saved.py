"""A model as a manifest and tensors, and back: the settings, and what was learned from the data.

Reading trusts nothing. The manifest is checked against its schema, only classes that cbdl itself defines are built,
networks are first laid out on torch's `meta` device, which holds no numbers, and what they would need is compared with
the tensors that are there; every refusal is a `ModelError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import Data, Standard
from cbdl.bayes.flat import Layout
from cbdl.bayes.learned import Chains, Learned, Part
from cbdl.bayes.likelihoods import Likelihood
from cbdl.bayes.methods import Method, Posterior
from cbdl.bayes.predictive import activations
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.tails import Tail
from cbdl.ground import memory
from cbdl.nets import Net
from cbdl.store.codec import decode, encode
from cbdl.store.folder import MANIFEST, Tensors, read_manifest, read_tensors, write_folder
from cbdl.store.schema import FORMAT, SHARED, ModelError, file_of

Nets = Sequence[Callable[[], nn.Module]]
QUANTILES = "inputs.quantiles"


@dataclass(frozen=True)
class Saved:
    """The settings of a model and what it has learned; `extra` is whatever else belongs to it, as JSON."""

    priors: tuple[PriorLike, ...]
    likelihoods: tuple[Likelihood, ...]
    method: Method
    plausible: float
    chains: Chains
    sharpen: bool
    seed: int
    standardize: bool
    trainable: tuple[str, ...] | None
    dtype: torch.dtype
    learned: Learned
    extra: Mapping[str, Any] = field(default_factory=dict)
    quantiles: Tensor | None = None
    """(q, features): what a missing input could be; None where inputs are no rows of numbers."""
    labels: tuple[str, ...] | None = None
    """What the classes are called; None: numbers."""


# --- writing ------------------------------------------------------------------------------------------------


def write(path: str | Path, saved: Saved) -> None:
    """Write `saved` as the folder `path`, replacing a model that is there, and nothing else."""
    write_folder(Path(path), *_described(saved))


def _described(saved: Saved) -> tuple[dict[str, Any], dict[str, Tensors]]:
    """The manifest, and the tensors of every file."""
    from importlib.metadata import version

    learned, shared = saved.learned, Tensors()
    for name, standard in (("inputs", learned.inputs), ("targets", learned.targets)):
        shared[f"{name}.loc"], shared[f"{name}.scale"] = standard.loc, standard.scale
    if saved.quantiles is not None:
        shared[QUANTILES] = saved.quantiles
    manifest = {
        "format": FORMAT,
        "cbdl": version("cbdl"),
        "torch": torch.__version__,
        "priors": encode(saved.priors, shared, "priors"),
        "likelihoods": encode(saved.likelihoods, shared, "likelihoods"),
        "method": encode(saved.method, shared, "method"),
        "plausible": saved.plausible,
        "chains": saved.chains,
        "sharpen": saved.sharpen,
        "sharpness": [[k, s, power] for (k, s), power in sorted(learned.sharpness.items())],
        "tails": [[k, s, tail.share, tail.width] for (k, s), tail in sorted(learned.tails.items())],
        "rows": learned.size,
        "seed": saved.seed,
        "standardize": saved.standardize,
        "trainable": None if saved.trainable is None else list(saved.trainable),
        "dtype": str(saved.dtype).removeprefix("torch."),
        "space": learned.space,
        "row": list(learned.row),
        "integers": learned.integers,
        "parts": [
            {
                "likelihood": s,
                "members": [m.k for m in part.cohort.members],
                "priors": None
                if _same(part.priors, saved.priors)
                else encode(part.priors, shared, f"parts.{s}.priors"),
            }
            for s, part in sorted(learned.parts.items())
        ],
        "labels": None if saved.labels is None else list(saved.labels),
        "extra": dict(saved.extra),
    }
    files = {file_of(s): _tensors(part) for s, part in learned.parts.items()}
    return manifest, {SHARED: shared, **files}


def _same(priors: Sequence[PriorLike], others: Sequence[PriorLike]) -> bool:
    return all(one is other for one, other in zip(priors, others, strict=True))


def _tensors(part: Part) -> Tensors:
    constants = {f"constant.{n}": c for n, c in part.cohort.forward.constants.items()}
    return {**part.posterior.state(), **constants}


# --- reading ------------------------------------------------------------------------------------------------


def read(
    path: str | Path,
    nets: Nets | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Saved:
    """The model in the folder `path`; `nets` are the factories of networks that are the user's own.

    `dtype`: networks in another precision than that of the training; the units of the data keep theirs.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    tensors = {name: read_tensors(folder, name, entry) for name, entry in manifest["files"].items()}
    try:
        return _built(manifest, tensors, nets, torch.device(device), dtype)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    except Exception as error:  # whatever a description that is not ours runs into
        raise ModelError(f"{folder / MANIFEST} does not describe a model: {error}") from error


def _built(
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Tensors],
    nets: Nets | None,
    device: torch.device,
    wanted: torch.dtype | None,
) -> Saved:
    shared = tensors[SHARED]
    priors = decode(manifest["priors"], shared, "priors")
    likelihoods = _likelihoods(manifest["likelihoods"], shared, nets)
    method = decode(manifest["method"], shared, "method")
    if not isinstance(method, Method) or not all(isinstance(q, Likelihood) for q in likelihoods):
        raise ModelError("method and likelihoods are not what their names say")
    own = {"float32": torch.float32, "float64": torch.float64}[manifest["dtype"]]
    dtype = own if wanted is None else wanted
    trainable = None if manifest["trainable"] is None else tuple(manifest["trainable"])
    reader = _Reader(manifest, shared, method, trainable, device, dtype)
    parts = {
        part["likelihood"]: reader.part(
            part,
            likelihoods[part["likelihood"]],
            priors if part["priors"] is None else decode(part["priors"], shared, "parts.priors"),
            _in_precision(tensors[file_of(part["likelihood"])], own, dtype),
        )
        for part in manifest["parts"]
    }
    learned = Learned(
        parts,
        _standard(shared, "inputs").to(device, own),
        _standard(shared, "targets").to(device, own),
        tuple(manifest["row"]),
        manifest["seed"],
        float(manifest["rows"]),
        manifest["integers"],
        {(k, s): float(power) for k, s, power in manifest.get("sharpness", [])},
        {(k, s): Tail(float(own), float(wide)) for k, s, own, wide in manifest.get("tails", [])},
    )
    return Saved(
        priors,
        likelihoods,
        method,
        float(manifest.get("plausible", 0.0)),
        manifest.get("chains", "averaged"),
        manifest.get("sharpen", False),
        manifest["seed"],
        manifest["standardize"],
        trainable,
        dtype,
        learned,
        manifest["extra"],
        _quantiles(shared, manifest["row"]),
        tuple(manifest["labels"]) if manifest.get("labels") else None,
    )


def _quantiles(shared: Tensors, row: Sequence[int]) -> Tensor | None:
    """What a missing input could be, if the model says it; models of before do not."""
    values = shared.get(QUANTILES)
    if values is None:
        return None
    if (
        values.ndim != 2
        or not len(values)
        or list(values.shape[1:]) != list(row)
        or not values.isfinite().all()
    ):
        raise ModelError(
            f"{QUANTILES} has shape {tuple(values.shape)}; it must be numbers for inputs {tuple(row)}"
        )
    return values


def _likelihoods(
    specs: Sequence[Mapping[str, Any]], shared: Tensors, nets: Nets | None
) -> tuple[Likelihood, ...]:
    """The likelihoods, with the user's factories where the networks are the user's own."""
    if nets is not None and len(nets) != len(specs):
        raise ModelError(f"nets holds {len(nets)} factories; the model has {len(specs)} likelihoods")
    likelihoods = []
    for s, spec in enumerate(specs):
        net = spec.get("net")
        if nets is None and isinstance(net, dict) and net.get("type") == "user-net":
            raise ModelError(
                f"likelihood {s} uses a network of your own ({net.get('name')}), which a model folder does not hold; "
                "pass the factories: load(path, nets=[...]), one per likelihood"
            )
        place = f"likelihoods.{s}"
        given = spec if nets is None else {**spec, "net": None}
        likelihood: Likelihood = decode(given, shared, place)
        likelihoods.append(likelihood if nets is None else replace(likelihood, net=nets[s]))  # type: ignore[type-var]
    return tuple(likelihoods)


def _standard(shared: Tensors, name: str) -> Standard:
    return Standard(shared[f"{name}.loc"], shared[f"{name}.scale"])


def _in_precision(tensors: Tensors, own: torch.dtype, dtype: torch.dtype) -> Tensors:
    """The numbers of a posterior in another precision."""
    if own is dtype:
        return tensors
    return Tensors({name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()})


class _Reader:
    """Builds cohorts and posteriors from checked descriptions, all in the same units."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        shared: Tensors,
        method: Method,
        trainable: tuple[str, ...] | None,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.method, self.trainable, self.seed = method, trainable, manifest["seed"]
        self.space, self.row, self.integers = manifest["space"], manifest["row"], manifest["integers"]
        self.device, self.dtype = device, dtype
        self.inputs, self.targets = (_standard(shared, n).to(device, dtype) for n in ("inputs", "targets"))

    def part(
        self, spec: Mapping[str, Any], likelihood: Likelihood, priors: tuple[PriorLike, ...], tensors: Tensors
    ) -> Part:
        s = spec["likelihood"]
        if likelihood.space != self.space:
            raise ModelError(f"likelihood {s} is for {likelihood.space}, the model for {self.space}")
        members = tuple(Member.of(self.seed, k, s) for k in spec["members"])
        for name, tensor in tensors.items():
            if not name.startswith("constant.") and tensor.shape[:1] != (len(members),):
                raise ModelError(
                    f"likelihood {s}: {name} has shape {tuple(tensor.shape)}; there are {len(members)} members"
                )
        if isinstance(likelihood.net, Net):
            self._preview(likelihood.net, tensors, len(members), s)
        cohort = Cohort.of(
            priors,
            likelihood,
            self._blank(),
            seed=self.seed,
            s=s,
            members=members,
            trainable=self.trainable,
        )
        return Part(priors, cohort, self._posterior(cohort, tensors, s))

    def _preview(self, net: Net, tensors: Tensors, members: int, s: int) -> None:
        """A ModelError if the network would be larger than the numbers that are there, or its inputs absurd."""
        with torch.device("meta"):
            network = net()
            x = torch.zeros((1, *self.row), dtype=torch.int64 if self.integers else torch.float32)
        needed = Layout.of(network, self.trainable).size
        there = sum(t.numel() for n, t in tensors.items() if not n.startswith("constant.")) // members
        if needed > there:
            raise ModelError(
                f"likelihood {s}: the network has {needed} parameters per member, the file holds {there} numbers"
            )
        if len(self.row) == 1 and self.row[0] <= needed:
            # No more than the file holds: real numbers will do. The first layer without them would import torch's
            # compiler, which takes as long as torch itself.
            with torch.random.fork_rng(devices=[]):
                network, x = net(), torch.zeros(x.shape, dtype=x.dtype)
        try:
            numbers = activations(network, x)
        except Exception as error:
            raise ModelError(
                f"likelihood {s}: the network does not accept inputs of shape {tuple(self.row)}: {error}"
            ) from error
        if 4 * numbers > memory.limit():
            raise ModelError(
                f"likelihood {s}: an input of shape {tuple(self.row)} needs more memory than any that was trained on"
            )

    def _blank(self) -> Data:
        """Two rows of zeros in the shape of the training data: enough to build the networks and check their shapes."""
        dtype = torch.int64 if self.integers else self.dtype
        x = torch.zeros((2, *self.row), dtype=dtype, device=self.device)
        if self.space == "classes":
            y = torch.arange(2, device=self.device)
        else:
            y = torch.zeros((2, *self.targets.loc.shape), dtype=self.dtype, device=self.device)
        return Data(x, y, self.inputs, self.targets)

    def _posterior(self, cohort: Cohort, tensors: Tensors, s: int) -> Posterior:
        """The posterior of one cohort; every tensor must fit the network."""
        for name, constant in cohort.forward.constants.items():
            saved = tensors.get(f"constant.{name}")
            if saved is None or saved.shape != constant.shape:
                raise ModelError(f"likelihood {s}: the frozen parameter {name!r} does not fit the network")
            constant.copy_(saved)
        state = {n: t.to(self.device) for n, t in tensors.items() if not n.startswith("constant.")}
        try:
            posterior = self.method.from_state(cohort, state)
            fits = _fits(cohort, posterior)
        except Exception as error:
            raise ModelError(
                f"likelihood {s}: its tensors do not fit {type(self.method).__name__}: {error}"
            ) from error
        if not fits:
            raise ModelError(
                f"likelihood {s}: the saved parameters do not fit the network, which has {cohort.layout.size} for each "
                f"of {cohort.size} members; were other networks given?"
            )
        return posterior


def _fits(cohort: Cohort, posterior: Posterior) -> bool:
    """Whether the posterior gives parameters, noise and buffers of the network's shapes, all of them numbers."""
    theta: Tensor = posterior.sample(2)
    buffers = {n: b.shape for n, b in posterior.buffers.items()}
    return (
        theta.shape == (cohort.size, 2, cohort.layout.size)
        and theta.dtype == cohort.initial.dtype
        and bool(torch.isfinite(theta).all())
        and posterior.noise.shape == cohort.initial_noise.shape
        and bool(torch.isfinite(posterior.noise).all())
        and buffers == {n: b.shape for n, b in cohort.initial_buffers.items()}
    )
