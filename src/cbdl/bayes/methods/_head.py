"""The last layer of a network: where its parameters sit, what enters it, the members' priors on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from cbdl.bayes import likelihoods
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.flat import Layout
from cbdl.bayes.forward import Buffers, Forward
from cbdl.bayes.joint_prior import JointPrior
from cbdl.bayes.rows import Data, Standard, TrainingData

from ._curvature import Part


@dataclass(frozen=True)
class Head:
    """The last layer: coordinates `start` to `stop` are its weight (outputs, inputs), then its bias."""

    name: str
    start: int
    stop: int
    outputs: int
    inputs: int
    bias: bool

    @classmethod
    def of(cls, cohort: Cohort, layer: str | None) -> Head:
        layout, network = cohort.layout, cohort.forward.network
        name = layout.entries[-1].name.rpartition(".")[0] if layer is None else layer
        try:
            module = network.get_submodule(name)
        except AttributeError:
            raise ValueError(f"layer: the network has no module {name!r}") from None
        if not isinstance(module, nn.Linear):
            raise ValueError(
                f"LastLayer: {name!r} is a {type(module).__name__}; the last layer must be an nn.Linear"
            )
        entries = [e for e in layout.entries if e.name.rpartition(".")[0] == name]
        bias = module.bias is not None
        if [e.name.rpartition(".")[2] for e in entries] != (["weight", "bias"] if bias else ["weight"]):
            raise ValueError(f"LastLayer: weight and bias of {name!r} must both be trainable, and not tied")
        outputs, inputs = module.weight.shape
        return cls(name, entries[0].start, entries[-1].stop, outputs, inputs, bias)

    def matrix(self, flat: Tensor) -> Tensor:
        """Coordinates (..., stop - start) as (..., outputs, inputs + 1), the bias last."""
        size = self.outputs * self.inputs
        w = flat[..., :size].reshape(*flat.shape[:-1], self.outputs, self.inputs)
        return torch.cat([w, flat[..., size:].unsqueeze(-1)], -1) if self.bias else w

    def flat(self, matrix: Tensor) -> Tensor:
        """The inverse of `matrix`."""
        w = matrix[..., : self.inputs].flatten(-2)
        return torch.cat([w, matrix[..., -1]], -1) if self.bias else w

    def layout(self) -> Layout:
        """The layout of the layer as a network of its own."""
        return Layout.of(nn.Linear(self.inputs, self.outputs, bias=self.bias))

    def part(self, cohort: Cohort) -> Part:
        return Part(self.layout(), torch.arange(self.start, self.stop, device=cohort.initial.device))

    def prior(self, prior: JointPrior) -> JointPrior:
        """The members' priors on this layer."""
        terms = []
        for term in prior.terms:
            low, high = max(term.columns.start, self.start), min(term.columns.stop, self.stop)
            if low < high:
                values = tuple(
                    v[:, low - term.columns.start : high - term.columns.start] for v in term.values
                )
                terms.append(replace(term, columns=slice(low - self.start, high - self.start), values=values))
        return JointPrior(prior.members, self.stop - self.start, tuple(terms))

    def cohort(self, cohort: Cohort, theta: Tensor, phi: Tensor) -> Cohort:
        """The members on this layer alone: all start at the shared network's."""
        network = nn.Linear(self.inputs, self.outputs, bias=self.bias).to(phi)
        layout = self.layout()
        start = theta[self.start : self.stop].expand(cohort.size, -1).clone()
        forward = Forward.choose(network, layout, {}, cohort.seeds, phi[:3])
        return replace(
            cohort,
            layout=layout,
            prior=self.prior(cohort.prior),
            forward=forward,
            initial=start,
            initial_buffers={},
        )

    def data(self, data: TrainingData, phi: Tensor, y: Tensor) -> Data:
        """The features as inputs."""
        same = Standard(phi.new_zeros(()), phi.new_ones(()))
        return Data(phi, y, same, data.targets, data.weights)


def features(
    cohort: Cohort, theta: Tensor, buffers: Buffers, head: Head, data: TrainingData, batch_size: int = 1024
) -> tuple[Tensor, Tensor]:
    """What enters the last layer (rows, inputs), in evaluation mode, checked to make the output; and the targets."""
    network, seen, parts = cohort.forward.network, list[Tensor](), []
    targets = []
    network.eval()
    module = network.get_submodule(head.name)
    state = {**cohort.forward.constants, **cohort.layout.view(theta), **{n: b[0] for n, b in buffers.items()}}
    hook = module.register_forward_hook(lambda _, given, out: seen.extend((given[0], out)))
    try:
        for batch in data.parts(batch_size):
            seen.clear()
            final = functional_call(network, state, (batch.x,))
            if len(seen) != 2 or seen[0].ndim != 2 or not torch.equal(final.flatten(1), seen[1].flatten(1)):
                raise ValueError(
                    f"LastLayer: the network's output is not that of {head.name!r} on rows of features; name the layer "
                    "that is called last (`layer=...`), and leave what follows it to the likelihood"
                )
            parts.append(seen[0])
            targets.append(batch.y)
    finally:
        hook.remove()
    return torch.cat(parts), torch.cat(targets)


def conjugate(cohort: Cohort, head: Head) -> bool:
    """Whether the posterior on the last layer is Normal: Normal noise, fixed or learned, and Normal priors.

    Normal noise with other priors is a ValueError: were it Laplace's approximation, what a member is would
    depend on who else is in its group.
    """
    noise = cohort.likelihood
    if not isinstance(noise, likelihoods.Normal) or noise.scale == "heteroscedastic":
        return False
    for term in head.prior(cohort.prior).terms:
        if term.family.name != "normal":
            raise ValueError(
                f"LastLayer is exact for Normal noise and Normal priors; a prior on {head.name or 'the layer'!r} is "
                f"{term.family.name}: make it Normal, or use Laplace(part='last')"
            )
    return True
