"""A credal set that a model made knows where it comes from, however it is sliced, reduced or pickled."""

import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from kinds import KINDS

import cbdl

every_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)


@dataclass(frozen=True)
class Fake:
    """An origin whose floor is a number per set, and the number of extremes that it was asked about."""

    members: tuple[str, ...]
    numbers: torch.Tensor
    asked: ClassVar[list[int]] = []

    @property
    def noise(self):
        return self.numbers.unsqueeze(-1) - torch.arange(3.0)

    def floor(self, credal):
        self.asked.append(credal.num_extremes)
        assert credal.batch_shape == tuple(self.numbers.shape)
        return self.numbers + credal.num_extremes

    def at(self, index):
        return replace(self, numbers=self.numbers[index])


def predicted(kind, batch=(3,), given="numpy"):
    """A set of three extremes, the last of which repeats the first, with an origin."""
    numbers = 10.0 * torch.arange(torch.Size(batch).numel(), dtype=torch.float64).reshape(batch)
    Fake.asked.clear()
    return kind.make(batch, given).with_origin(Fake(("a", "b", "c"), numbers))


@every_kind
@pytest.mark.parametrize("given", ["numpy", "torch"])
def test_a_set_knows_its_members_and_computes_its_floor_once(kind, given):
    cs = predicted(kind, given=given)
    assert cs.members == ("a", "b", "c")
    assert Fake.asked == []  # nothing is computed before it is asked for
    floor = cs.floor
    assert isinstance(floor, torch.Tensor if given == "torch" else np.ndarray)
    assert floor.tolist() == [3, 13, 23]
    assert cs.noise.tolist() == cs.floor.tolist() == [3, 13, 23]
    assert Fake.asked == [3]


@every_kind
@pytest.mark.parametrize("known", [False, True])
def test_slices_keep_their_origin(kind, known):
    cs = predicted(kind, (2, 3))
    if known:
        assert cs.floor.shape == (2, 3)
    for index in (1, (0, 2), (slice(None), 1), slice(1, None), np.array([1, 0, 1]), ([0, 1], [2, 0])):
        part = cs[index]
        assert part.members == ("a", "b", "c")
        expected = 3 + 10 * np.arange(6).reshape(2, 3)[index]
        np.testing.assert_array_equal(part.floor, expected)
        assert part.floor.shape == part.batch_shape
    assert Fake.asked == [3] if known else len(Fake.asked) == 6
    assert [p.floor.tolist() for p in cs] == [[3, 13, 23], [33, 43, 53]]
    assert cs[1][2].floor == 53


@pytest.mark.parametrize("kind", [k for k in KINDS if k.repeats], ids=repr)
@pytest.mark.parametrize("known", [False, True])
def test_reduction_names_who_stayed_and_keeps_the_floor_of_all(kind, known):
    cs = predicted(kind)
    if known:
        assert cs.floor is not None
    less = cs.reduce()
    assert less.members == (("a", "b"),) * 3
    assert less[1].members == ("a", "b")
    assert less[1:].floor.tolist() == [13, 23]
    assert less.floor.tolist() == cs.floor.tolist() == [3, 13, 23]
    assert less.reduce().members == less.members
    assert set(Fake.asked) == {3}  # never asked about the fewer extremes
    assert predicted(kind, ()).reduce().members == ("a", "b")


def test_sets_of_a_batch_may_keep_different_members():
    loc = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    cs = cbdl.NormalCredalSet(loc, 1.0).with_origin(Fake(("a", "b", "c"), torch.zeros(3)))
    less = cs.reduce()
    assert less.num_extremes == 2
    assert less.members == (("a", "b"), ("a", "a"), ("a", "c"))  # a set with fewer repeats its first
    assert less[[2, 0]].members == (("a", "c"), ("a", "b"))
    assert less[2].reduce().members == ("a", "c")
    assert less[1].reduce().members == ("a",)
    nested = cbdl.NormalCredalSet(loc[None], 1.0).with_origin(Fake(("a", "b", "c"), torch.zeros(1, 3)))
    assert nested.reduce().members == ((("a", "b"), ("a", "a"), ("a", "c")),)


@every_kind
@pytest.mark.parametrize("known", [False, True])
def test_pickles_keep_their_origin(kind, known):
    cs = predicted(kind)
    if known:
        assert cs.floor is not None
    for part in (cs, cs[1:], cs.reduce(), cs.reduce()[1:]):
        back = pickle.loads(pickle.dumps(part))
        assert back.members == part.members
        assert back.floor.tolist() == part.floor.tolist()


def test_a_floor_that_is_known_frees_the_set_before_the_reduction():
    cs = predicted(KINDS[0])
    less = cs.reduce()
    before = len(pickle.dumps(less))
    assert less.floor is not None
    assert len(pickle.dumps(less)) < before


@every_kind
def test_sets_that_nobody_made_have_no_origin(kind):
    cs = kind.make((3,), m=1)
    assert cs.origin is cs.members is cs.floor is cs.noise is None
    made = cs.with_origin(Fake(("a",), torch.zeros(3)))
    assert cs.origin is None  # the set itself stays as it was
    assert made.point().origin is None  # an average is none of the members
    with pytest.raises(ValueError, match="2 members for 1 extremes"):
        cs.with_origin(Fake(("a", "b"), torch.zeros(3)))


def test_a_floor_may_be_unknown():
    cs = cbdl.NormalCredalSet(np.zeros((2, 1)), 1.0)
    known = cs.with_origin(Fake(("a",), torch.tensor([float("nan"), 0.0])))
    assert np.isnan(known.floor).tolist() == [True, False]
