"""Any network, unmodified: every way gives what single networks give, buffers and gradients included."""

from __future__ import annotations

import logging

import pytest
import torch
from predictions import predict
from torch import Tensor, nn
from zoo import ZOO, Branching, Tied, Words, conv

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.flat import Layout
from cbdl.bayes.forward import Forward, Way
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.train import Run
from cbdl.bayes.wide import ELEMENTWISE

MEMBERS, DRAWS = 3, 2


def setup(
    name: str, way: Way | None = None
) -> tuple[Forward, Tensor, dict[str, Tensor], Tensor, list[nn.Module]]:
    """A Forward, theta (members, draws, P), buffers, x, and the same as single networks."""
    factory, x = ZOO[name]
    torch.manual_seed(0)
    networks = [factory().double() for _ in range(MEMBERS * DRAWS)]
    network = factory().double()
    layout = Layout.of(network)
    theta = torch.stack([layout.flatten(dict(n.named_parameters())) for n in networks])
    buffers = {n: b.expand(MEMBERS, *b.shape).clone() for n, b in network.named_buffers()}
    forward = Forward.choose(network, layout, layout.constants(network), (11, 12, 13), x[:3], way)
    return forward, theta.reshape(MEMBERS, DRAWS, -1), buffers, x, networks


def score(out: Tensor, noise: Tensor, members: slice = slice(None)) -> Tensor:
    return out.square().flatten(2).mean(2) + out.flatten(2)[..., 0]


def even(nll: Tensor, rows: slice) -> Tensor:
    return torch.full_like(nll, 1 / DRAWS)


@pytest.mark.parametrize("name", ZOO)
def test_outputs_are_those_of_single_networks(name: str) -> None:
    forward, theta, buffers, x, networks = setup(name)
    out = forward(theta, x, buffers)
    with torch.no_grad():
        truth = torch.stack([n.eval()(x) for n in networks])
    torch.testing.assert_close(out.flatten(0, 1), truth, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ZOO)
def test_gradients_and_buffers_are_those_of_single_networks(name: str) -> None:
    forward, theta, buffers, x, networks = setup(name)
    noise = torch.zeros(MEMBERS, 0)
    nll, by_theta, _ = forward.gradient(theta, noise, x, buffers, score, even, step=5)
    for i, network in enumerate(networks):
        member, draw = divmod(i, DRAWS)
        torch.manual_seed(_seed(forward, member, draw))
        one = score(network.train()(x)[None, None], noise)
        assert float(nll[member, draw]) == pytest.approx(float(one.detach()), rel=1e-9)
        (one.sum() / DRAWS).backward()
        parameters = dict(network.named_parameters())
        grads = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in parameters.items()}
        torch.testing.assert_close(
            by_theta[member, draw], forward.layout.flatten(grads), rtol=1e-8, atol=1e-11
        )
    for n, b in buffers.items():
        both = torch.stack([dict(network.named_buffers())[n] for network in networks])
        both = both.reshape(MEMBERS, DRAWS, *both.shape[1:])
        truth = both.mean(1) if b.is_floating_point() else both[:, 0]
        torch.testing.assert_close(b, truth, rtol=1e-9, atol=1e-12)


def _seed(forward: Forward, member: int, draw: int) -> int:
    from cbdl.bayes._random import mix

    return mix(forward.seeds[member], "network", 5, draw)


@pytest.mark.parametrize(
    "name", ["mlp", "layer norm", "batch norm", "attention", "embedding", "conv2d", "tied", "residual"]
)
def test_all_ways_give_the_same_results(name: str) -> None:
    results = []
    ways: list[Way] = ["wide", "vmap", "loop"] if name == "mlp" else ["vmap", "loop"]
    for way in ways:
        forward, theta, buffers, x, _ = setup(name, way)
        assert forward.way == way
        nll, by_theta, _ = forward.gradient(theta, torch.zeros(MEMBERS, 0), x, buffers, score, even)
        results.append([nll, by_theta, forward(theta, x, buffers), *buffers.values()])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_a_network_that_cannot_be_batched_falls_back_with_one_logged_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="cbdl"):
        forward, *_ = setup("branching")
    assert forward.way == "loop"
    assert [r.message for r in caplog.records] == [
        r.message for r in caplog.records if "evaluated in a loop" in r.message
    ]
    assert len(caplog.records) == 1
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="cbdl"):
        assert setup("mlp")[0].way == "wide"
        assert setup("attention")[0].way == "vmap"
        assert setup("conv2d")[0].way == "loop"
    assert not caplog.records


def test_tied_parameters_are_one_block() -> None:
    layout = Layout.of(Tied())
    assert [e.name for e in layout.entries] == ["encode.weight", "encode.bias", "decode.bias"]
    assert layout.size == 15


def test_fan_in_of_every_kind() -> None:
    fans = {e.name: e.fan_in for e in Layout.of(conv(2)()).entries}
    assert fans == {"0.weight": 9, "0.bias": 1, "1.weight": 1, "1.bias": 1, "4.weight": 16, "4.bias": 1}
    assert next(e.fan_in for e in Layout.of(nn.ConvTranspose2d(4, 6, 3, groups=2)).entries) == 18
    assert next(e.fan_in for e in Layout.of(Words()).entries) == 1


def classification(rows: int = 60) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(3)
    x = torch.randn(rows, 3, generator=source)
    return x, (x[:, 0] + 0.3 * x[:, 1] > 0).long()


def backbone() -> nn.Module:
    torch.manual_seed(99)  # pretrained: the same each time
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
    net[0].requires_grad_(False)
    return net


@pytest.mark.parametrize("by", ["requires_grad", "trainable"])
def test_a_frozen_backbone_stays_and_its_head_is_bayesian(by: str) -> None:
    x, y = classification()
    made = data.prepare(x, y, space="classes")

    def free() -> nn.Module:
        return backbone().requires_grad_(True)

    factory, trainable = (backbone, None) if by == "requires_grad" else (free, "2.*")
    cohort = Cohort.of(
        [priors.Normal(), priors.Laplace()], likelihoods.Categorical(factory), made, trainable=trainable
    )
    assert cohort.layout.names == ("2.weight", "2.bias")
    posterior = MeanField(epochs=40, lr=0.05).fit(cohort, made, Run())
    probs = predict(cohort, posterior, made, made.x, draws=4)["probs"]
    net = backbone()
    theta = posterior.sample(4)
    for i in range(2):
        for d in range(4):
            net.load_state_dict({**net.state_dict(), **cohort.layout.view(theta[i, d])})
            torch.testing.assert_close(probs[i, d], net(made.x).softmax(-1).detach(), rtol=1e-4, atol=1e-5)
    assert (probs.mean(1).argmax(-1) == y).float().mean() > 0.85


def test_batch_norm_statistics_are_kept_per_member_and_used_at_prediction() -> None:
    """Full batches and almost no weight noise: the running mean is that of the member's own first layer."""
    x, y = classification(200)
    made = data.prepare(x, y, space="classes", dtype=torch.float64)
    factory = lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))  # noqa: E731
    cohort = Cohort.of(priors.grid([0.0], [0.3, 1.0, 3.0]), likelihoods.Categorical(factory), made)
    method = MeanField(epochs=300, batch_size=1000, lr=1e-2, temperature=1e-6, initial_scale=1e-6)
    posterior = method.fit(cohort, made, Run())
    parameters = cohort.layout.view(posterior.mu)
    first = torch.einsum("ni,moi->mno", made.x, parameters["0.weight"]) + parameters["0.bias"].unsqueeze(1)
    torch.testing.assert_close(posterior.buffers["1.running_mean"], first.mean(1), rtol=0.05, atol=0.02)
    torch.testing.assert_close(posterior.buffers["1.running_var"], first.var(1), rtol=0.05, atol=0.02)
    assert (posterior.buffers["1.num_batches_tracked"] == 300).all()
    assert not torch.allclose(posterior.buffers["1.running_mean"][0], posterior.buffers["1.running_mean"][1])
    alone = predict(cohort, posterior, made, made.x[:1], draws=2)["probs"]
    together = predict(cohort, posterior, made, made.x, draws=2)["probs"]
    torch.testing.assert_close(alone, together[:, :, :1])


@pytest.mark.parametrize(
    "name", ["lstm", "embedding", "attention", "residual", "branching", "dropout", "transposed 1d"]
)
def test_mean_field_trains_it(name: str) -> None:
    factory, x = ZOO[name]
    made = data.prepare(x, torch.tensor([0, 1, 0, 1, 1, 0]), space="classes")
    cohort = Cohort.of(
        [priors.Normal(), priors.Laplace()],
        likelihoods.Categorical(factory) if name != "tied" else likelihoods.Normal(factory),
        made,
    )
    posterior = MeanField(epochs=75, lr=0.04, temperature=1e-4).fit(cohort, made, Run())
    assert posterior.record is not None
    assert (posterior.record.loss[-1] < 0.35).all()


def test_a_factory_that_changes_its_mind_is_refused() -> None:
    sizes = iter([4, 5, 6])
    x, y = classification()
    made = data.prepare(x, y, space="classes")
    with pytest.raises(ValueError, match="different network when called again"):
        Cohort.of(
            [priors.Normal()],
            likelihoods.Categorical(lambda: nn.Sequential(nn.Linear(3, next(sizes)), nn.Linear(4, 2))),
            made,
        )
    with pytest.raises(ValueError, match="must return an nn"):
        Cohort.of([priors.Normal()], likelihoods.Categorical(lambda: 3), made)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="no parameter matches 'tail"):
        Cohort.of([priors.Normal()], likelihoods.Categorical(backbone), made, trainable="tail.*")
    with pytest.raises(ValueError, match="does not accept inputs of shape"):
        Cohort.of([priors.Normal()], likelihoods.Categorical(lambda: nn.Linear(4, 2)), made)
    whole = data.prepare(x > 0, y, space="classes")
    with pytest.raises(ValueError, match=r"X holds whole numbers, which stay whole: give X.astype\(float\)"):
        Cohort.of([priors.Normal()], likelihoods.Categorical(lambda: nn.Linear(3, 2)), whole)


def test_building_a_cohort_leaves_the_global_random_stream_alone() -> None:
    x, y = classification()
    made = data.prepare(x, y, space="classes")
    torch.manual_seed(5)
    Cohort.of([priors.Normal()], likelihoods.Categorical(Branching), made)
    got = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(got, torch.rand(3))


@pytest.mark.parametrize("kind", ELEMENTWISE, ids=lambda kind: kind.__name__)
def test_every_elementwise_layer_of_a_wide_stack_has_its_derivative(kind: type[nn.Module]) -> None:
    network = nn.Sequential(nn.Linear(3, 5), kind(), nn.Linear(5, 4), kind(), nn.Linear(4, 2)).double()
    layout = Layout.of(network)
    theta = torch.randn(2, 3, layout.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = ZOO["mlp"][1]
    results = []
    for way in ("wide", "loop"):
        forward = Forward.choose(network, layout, {}, (1, 2), x, way)  # type: ignore[arg-type]
        results.append(forward.gradient(theta, torch.zeros(2, 0), x, {}, score, even)[:2])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
