"""Readers against files written here by the formats' own rules, and against the real files where they are."""

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from cbdl.data import DataError, Images, load, read_cifar, read_idx, read_svhn

RNG = np.random.default_rng(0)
DATA = Path(os.environ.get("CBDL_DATA", ""))
real = pytest.mark.skipif(
    "CBDL_DATA" not in os.environ or not (DATA / "svhn").is_dir(), reason="CBDL_DATA does not name the folder"
)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def place(tmp_path):
    """A folder of tiny data sets in the original formats."""
    for name in ("mnist", "fashion-mnist", "cifar-10", "svhn"):
        (tmp_path / name).mkdir()
    x, y = RNG.integers(0, 256, (12, 28, 28), dtype=np.uint8), RNG.integers(0, 10, 12, dtype=np.uint8)
    for prefix in ("train", "t10k"):
        (tmp_path / "mnist" / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(x)))
        (tmp_path / "mnist" / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(y))
    colour = RNG.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    records = np.concatenate([y[:5, None], colour.reshape(5, -1)], 1).tobytes()
    (tmp_path / "cifar-10" / "data_batch_1.bin").write_bytes(records)
    (tmp_path / "cifar-10" / "data_batch_3.bin.gz").write_bytes(gzip.compress(records))
    digits = np.array([[10], [1], [9], [10], [5]])
    savemat(tmp_path / "svhn" / "train_32x32.mat", {"X": colour.transpose(2, 3, 1, 0), "y": digits})
    return tmp_path, x, y, colour


def test_idx_files_are_read_compressed_or_not(place):
    folder, x, y, _ = place
    got = load("mnist", "test", folder)
    np.testing.assert_array_equal(got.x[:, 0], x)
    np.testing.assert_array_equal(got.y, y)
    assert (got.x.dtype, got.y.dtype) == (torch.uint8, torch.int64)
    assert repr(got) == "Images(mnist, test: 12 of 1 x 28 x 28, 10 classes)"


def test_cifar_files_that_are_there_are_joined_and_the_rest_is_noted(place):
    folder, _, y, colour = place
    got = load("cifar-10", "train", folder)
    assert len(got) == 10
    np.testing.assert_array_equal(got.x[:5], colour)
    np.testing.assert_array_equal(got.x[5:], colour)
    np.testing.assert_array_equal(got.y[:5], y[:5])
    assert "only data_batch_1.bin, data_batch_3.bin of 5" in got.note
    with pytest.raises(DataError, match=r"test_batch\.bin is not there"):
        load("cifar-10", "test", folder)


def test_the_ten_of_svhn_is_a_zero(place):
    folder, _, _, colour = place
    got = load("svhn", "train", folder)
    np.testing.assert_array_equal(got.x, colour)
    assert got.y.tolist() == [0, 1, 9, 0, 5]


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_damaged_files_are_refused_with_their_name(place, damage):
    folder, *_ = place
    files = {
        folder / "mnist" / "train-images-idx3-ubyte.gz": lambda: load("mnist", "train", folder),
        folder / "mnist" / "train-labels-idx1-ubyte": lambda: load("mnist", "train", folder),
        folder / "cifar-10" / "data_batch_1.bin": lambda: load("cifar-10", "train", folder),
        folder / "cifar-10" / "data_batch_3.bin.gz": lambda: load("cifar-10", "train", folder),
        folder / "svhn" / "train_32x32.mat": lambda: load("svhn", "train", folder),
    }
    for path, read in files.items():
        whole = path.read_bytes()
        path.write_bytes(
            {"cut": whole[: len(whole) // 2 + 1], "text": b"<html>not found</html>", "empty": b""}[damage]
        )
        with pytest.raises(DataError, match=path.name.removesuffix(".gz").replace(".", r"\.")) as refusal:
            read()
        assert "remove what is damaged; cbdl data fetch" in str(refusal.value)
        path.write_bytes(whole)


def test_what_is_not_there_says_how_to_get_it(tmp_path):
    for name in ("mnist", "cifar-10", "svhn"):
        with pytest.raises(DataError, match=f"cbdl data fetch {name}"):
            load(name, "train", tmp_path)
    for arguments, message in ((("imagenet",), "name is 'imagenet'"), (("mnist", "all"), "split is 'all'")):
        with pytest.raises(ValueError, match=message):
            load(*arguments)


def test_labels_and_images_must_agree(place):
    folder, _, y, _ = place
    (folder / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(y[:5]))
    with pytest.raises(DataError, match=r"\(12, 28, 28\) images and \(5,\) labels"):
        load("mnist", "train", folder)
    bad = np.full((1, 3073), 11, dtype=np.uint8)
    (folder / "cifar-10" / "data_batch_1.bin").write_bytes(bad.tobytes())
    with pytest.raises(DataError, match="label 11"):
        read_cifar(folder / "cifar-10" / "data_batch_1.bin")


def test_labels_of_no_class_are_refused(place):
    folder, _, y, _ = place
    (folder / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(np.where(y == y[0], 200, y)))
    with pytest.raises(DataError, match="has the label 200 for train"):
        load("mnist", "train", folder)
    for odd in (50, 0.5):
        X = np.zeros((32, 32, 3, 2), dtype=np.uint8)
        savemat(folder / "svhn" / "train_32x32.mat", {"X": X, "y": np.array([[1], [odd]])})
        with pytest.raises(DataError, match="none of 0 to 10"):
            load("svhn", "train", folder)


@real
def test_the_real_files_have_the_counts_and_means_that_are_known():
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    mnist = load("mnist")
    assert mnist.y.bincount().tolist() == counts
    assert float(mnist.floats().mean()) == pytest.approx(0.1307, abs=5e-5)
    assert mnist.y[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert load("fashion-mnist", "test").y.bincount().tolist() == [1000] * 10
    cifar = load("cifar-10", "test")
    assert cifar.floats().mean((0, 2, 3)).tolist() == pytest.approx([0.494, 0.485, 0.450], abs=2e-3)
    svhn = load("svhn", "test")
    assert svhn.y.bincount().tolist() == [266, 772, 635, 440, 402, 364, 311, 312, 242, 256]


# --- conversions -------------------------------------------------------------------------------------------


def images(channels=1, size=28, n=3):
    x = torch.from_numpy(RNG.integers(0, 256, (n, channels, size, size), dtype=np.uint8))
    return Images(x, torch.arange(n), 10, "some")


def test_padding_frames_and_cuts_without_changing_a_pixel():
    small = images()
    large = small.sized(32)
    assert torch.equal(large.x[..., 2:30, 2:30], small.x)
    assert int(large.x.long().sum()) == int(small.x.long().sum())
    assert torch.equal(large.sized(28).x, small.x)
    odd = small.sized(31)
    assert torch.equal(odd.x[..., 1:29, 1:29], small.x)


def test_resizing_keeps_the_mean_and_a_constant():
    flat = Images(torch.full((1, 1, 28, 28), 77, dtype=torch.uint8), torch.zeros(1), 10, "flat")
    assert (flat.sized(32, "resize").x == 77).all()
    some = images(3, 32)
    assert float(some.sized(28, "resize").floats().mean()) == pytest.approx(
        float(some.floats().mean()), abs=0.01
    )


def test_grey_is_pillows_grey_and_colour_repeats_it():
    Image = pytest.importorskip("PIL.Image")
    some = images(3, 32)
    truth = np.stack([np.asarray(Image.fromarray(x.permute(1, 2, 0).numpy()).convert("L")) for x in some.x])
    # pillow rounds down in 16 bits
    assert np.abs(some.grey().x[:, 0].numpy().astype(int) - truth).max() <= 1
    grey = some.grey()
    assert torch.equal(grey.colour().x, grey.x.expand(-1, 3, -1, -1))
    assert grey.grey() is grey
    assert some.colour() is some


def test_one_data_set_in_the_form_of_another():
    digits, photographs = images(1, 28), images(3, 32)
    assert photographs.like(digits).x.shape == (3, 1, 28, 28)
    assert digits.like(photographs, "resize").x.shape == (3, 3, 32, 32)


def test_images_are_sliced_with_their_labels_and_checked():
    some = images(n=5)
    assert some[1:3].y.tolist() == [1, 2]
    assert len(some[some.y > 2]) == 2
    for x, y in ((some.x.float(), some.y), (some.x[:, 0], some.y), (some.x, some.y[:2])):
        with pytest.raises(ValueError, match=r"images are bytes|one label each"):
            Images(x, y, 10, "bad")
    for bad in ({"size": 0}, {"size": 32, "how": "stretch"}):
        with pytest.raises(ValueError, match=next(reversed(bad))):
            some.sized(**bad)


def test_readers_agree_with_the_records_they_read(place):
    folder, x, _, _ = place
    np.testing.assert_array_equal(read_idx(folder / "mnist" / "train-images-idx3-ubyte"), x)
    with pytest.raises(DataError, match="is not there"):
        read_svhn(folder / "svhn" / "test_32x32.mat")
