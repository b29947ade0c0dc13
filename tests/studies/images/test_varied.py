"""Training rows that vary: other pixels in every epoch, the same ones in the same epoch, never another label."""

import torch

from cbdl.bayes.stream import Source
from cbdl.studies.images.varied import Varied

X = torch.arange(2 * 8 * 8.0).reshape(2, 1, 8, 8)
Y = torch.tensor([3, 7])


def seen(rows, epoch):
    [(x, y)] = Source.of(rows).fetch([[0, 1] * 50], 0, epoch)
    assert torch.equal(y, Y.repeat(50))
    return x


def test_half_of_the_looks_see_left_for_right():
    first = Varied(X, Y, mirrored=True)
    own = [first[i % 2][0] for i in range(200)]
    assert all(torch.equal(x, X[i % 2]) or torch.equal(x, X[i % 2].flip(-1)) for i, x in enumerate(own))
    assert 60 < sum(torch.equal(x, X[i % 2]) for i, x in enumerate(own)) < 140


def test_a_moved_image_is_the_image_where_both_are():
    rows = Varied(X, Y, moved=2)
    whole = torch.nn.functional.pad(X[:1], (2,) * 4, mode="reflect")[0]
    places = {
        (a, b)
        for x in (rows[0][0] for _ in range(300))
        for a in range(5)
        for b in range(5)
        if torch.equal(x, whole[:, a : a + 8, b : b + 8])
    }
    assert len(places) == 25


def test_the_same_epoch_is_the_same_and_another_is_not():
    rows = Varied(X, Y, mirrored=True, moved=2)
    assert torch.equal(seen(rows, 3), seen(rows, 3))
    assert not torch.equal(seen(rows, 3), seen(rows, 4))
