"""Corruptions: what each is known to do, growing severities, seeds, any size, and no pixel outside of 0 and 1."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from sklearn.datasets import load_sample_image
from sklearn.neural_network import MLPClassifier

from cbdl.data import CIFAR10_C, CORRUPTIONS, MNIST_C, Images, corrupt, load
from cbdl.data.corruptions import fields
from cbdl.data.corruptions.digital import compressed
from cbdl.data.corruptions.strokes import edges

every_corruption = pytest.mark.parametrize("name", CORRUPTIONS)


def photographs(n=24, size=32):
    """Pieces of scikit-learn's two photographs, (n, 3, size, size) bytes."""
    pieces = []
    for file in ("china.jpg", "flower.jpg"):
        whole = torch.tensor(load_sample_image(file)).permute(2, 0, 1)
        small = torch.nn.functional.avg_pool2d(whole.float(), 4).round().to(torch.uint8)
        rows = small.unfold(1, size, size).unfold(2, size, size)
        pieces.append(rows.permute(1, 2, 0, 3, 4).reshape(-1, 3, size, size))
    x = torch.cat(pieces)
    return x[torch.linspace(0, len(x) - 1, n).long()]


def digits(n=48):
    """Handwritten digits of 28 x 28, (n, 1, 28, 28) bytes."""
    return load("digits", "test")[:n].sized(20, "resize").sized(28).x


def images(name):
    return photographs() if name in CIFAR10_C else digits()


def distances(x, name, severity, seed=0):
    """(n,): the root mean square of the change."""
    change = (corrupt(x, name, severity, seed).float() - x.float()) / 255
    return change.square().mean((1, 2, 3)).sqrt()


def test_the_names_are_those_of_the_two_collections():
    assert (len(CIFAR10_C), len(MNIST_C)) == (18, 15)
    assert set(CIFAR10_C) | set(MNIST_C) == set(CORRUPTIONS)


@every_corruption
def test_the_distance_to_the_clean_images_grows_with_severity(name):
    kinds = [photographs()] if name in ("saturate",) else [photographs(), digits()]
    for x in kinds:
        mean = torch.stack([distances(x, name, severity).mean() for severity in (1, 2, 3, 4, 5)])
        assert mean[0] > 0.004, mean
        assert (mean.diff() > 0).all(), mean


def tinted(images):
    """Grey digits in a colour of their own each, from which a saturation can be taken."""
    tint = 0.4 + 0.6 * torch.rand((len(images), 3, 1, 1), generator=torch.Generator().manual_seed(0))
    return replace(images, x=(images.x * tint).round().to(torch.uint8))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # good enough after 60 epochs
@pytest.mark.parametrize("family", [CIFAR10_C, MNIST_C], ids=["CIFAR-10-C", "MNIST-C"])
def test_the_error_of_a_trained_classifier_grows_with_severity(family):
    """Averaged over the corruptions of a family. Every image is its own control: the share of corruptions that it is
    taken wrongly under rises by a step, whose mean over n independent images has the standard error s / sqrt n; each of
    the steps is above three of them, which by chance alone one in 700 would be."""
    train, test = (load("digits", split).sized(20, "resize").sized(28) for split in ("train", "test"))
    if family is CIFAR10_C:
        train, test = tinted(train), tinted(test)
    network = MLPClassifier((64,), max_iter=60, random_state=0)
    network.fit(train.floats().flatten(1).numpy(), train.y.numpy())

    def wrong(images):
        return network.predict(images.floats().flatten(1).numpy()) != images.y.numpy()

    spoiled = [[wrong(corrupt(test, name, s, seed=0)) for name in family] for s in (1, 2, 3, 4, 5)]
    shares = np.array([wrong(test).astype(float), *np.mean(spoiled, axis=1)])
    steps = np.diff(shares, axis=0)
    error = steps.std(axis=1, ddof=1) / math.sqrt(len(test))
    assert shares[0].mean() < 0.15
    assert (steps.mean(axis=1) > 3 * error).all(), shares.mean(axis=1)


@every_corruption
def test_a_seed_repeats_the_images(name):
    x = images(name)[:6]
    assert torch.equal(corrupt(x, name, 3, seed=5), corrupt(x, name, 3, seed=5))
    drawn = {
        "gaussian_blur",
        "defocus_blur",
        "zoom_blur",
        "brightness",
        "contrast",
        "pixelate",
        "jpeg",
        "saturate",
    }
    drawn |= {"canny_edges", "scale"}
    same = torch.equal(corrupt(x, name, 3, seed=5), corrupt(x, name, 3, seed=6))
    assert same == (name in drawn)


@every_corruption
@pytest.mark.parametrize("size", [28, 64])
def test_the_distance_grows_with_severity_on_other_sizes(name, size):
    x = photographs(12, size)
    away = [float((corrupt(x, name, s).float() - x.float()).square().mean()) for s in (1, 2, 3, 4, 5)]
    assert (np.diff([0.0, *away]) > 0).all(), away


@every_corruption
@pytest.mark.parametrize("shape", [(2, 3, 17, 23), (1, 3, 64, 64), (3, 3, 8, 8), (2, 3, 3, 5), (2, 3, 1, 1)])
def test_any_size_and_both_kinds_of_numbers(name, shape):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    for given in (x, (255 * x).round().to(torch.uint8), x.double()):
        got = corrupt(given, name, 5)
        assert (got.shape, got.dtype) == (given.shape, given.dtype)
        assert got.min() >= 0
        assert got.max() <= (255 if given.dtype == torch.uint8 else 1)
        assert torch.isfinite(got.double()).all()


@every_corruption
def test_black_and_white_images_stay_numbers(name):
    for x in (torch.zeros(2, 3, 32, 32), torch.ones(2, 3, 32, 32)):
        assert torch.isfinite(corrupt(x, name, 5)).all()


def test_parts_of_a_batch_do_not_depend_on_what_follows(monkeypatch):
    x = digits(12)
    monkeypatch.setattr("cbdl.data.corruptions.apply.PART", 4)
    whole, some = corrupt(x, "gaussian_noise", 2), corrupt(x[:8], "gaussian_noise", 2)
    assert torch.equal(whole[:8], some)
    assert not torch.equal(whole[:4] - x[:4], whole[4:8] - x[4:8])
    assert len(corrupt(x[:0], "fog", 1)) == 0


def test_images_keep_their_labels_and_say_what_was_done():
    got = corrupt(load("digits", "test")[:3], "stripe", 2)
    assert isinstance(got, Images)
    assert got.note == "stripe 2"
    assert corrupt(replace(got, note="a part"), "fog", 3).note == "a part; fog 3"
    assert got.y.tolist() == load("digits", "test").y[:3].tolist()


@pytest.mark.parametrize(
    ("x", "name", "severity", "message"),
    [
        (torch.zeros(2, 1, 8, 8), "rain", 1, "name is 'rain'"),
        (torch.zeros(2, 1, 8, 8), "fog", 6, "severity is 6"),
        (torch.zeros(2, 1, 8, 8), "fog", 2.5, "severity is 2.5"),
        (torch.zeros(8, 8), "fog", 1, r"shape \(8, 8\)"),
        (torch.full((2, 1, 8, 8), 255.0), "fog", 1, "between 0 and 1"),
        (torch.zeros(2, 1, 0, 8), "fog", 1, r"shape \(2, 1, 0, 8\)"),
        (np.zeros((2, 1, 8, 8)), "fog", 1, "images are a ndarray"),
        (torch.zeros(2, 1, 8, 8), "saturate", 1, "needs colour"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(x, name, severity, message):
    with pytest.raises(ValueError, match=message):
        corrupt(x, name, severity)


def test_seeds_are_whole_numbers_of_any_kind():
    x = torch.full((2, 1, 8, 8), 0.5)
    for seed in (2**62, -7):
        assert torch.equal(corrupt(x, "fog", 2, seed), corrupt(x, "fog", 2, np.int64(seed)))
    with pytest.raises(ValueError, match=r"seed is 0\.5"):
        corrupt(x, "fog", 2, 0.5)


# --- what each is known to do ------------------------------------------------------------------------------


def test_noise_has_the_moments_of_its_name():
    grey = torch.full((40, 1, 32, 32), 0.5)
    n = grey.numel()
    normal = corrupt(grey, "gaussian_noise", 1) - 0.5
    assert float(normal.std()) == pytest.approx(0.06, rel=5 / math.sqrt(2 * n))
    photons = 70
    shot = corrupt(grey, "shot_noise", 2)
    # a Poisson number of mean 35, in units of 1 / 70
    assert float(shot.var()) == pytest.approx(0.5 / photons, rel=5 * math.sqrt(2 / n) + 0.01)
    speckle = corrupt(0.4 * grey, "speckle_noise", 1) - 0.2
    assert float(speckle.std()) == pytest.approx(0.12 * 0.2, rel=5 / math.sqrt(2 * n))
    changed = (corrupt(grey, "impulse_noise", 3) != 0.5).double().mean()
    assert float(changed) == pytest.approx(0.09, abs=5 * math.sqrt(0.09 / n))


def test_counts_of_photons_are_poissons():
    from scipy import stats

    from cbdl.data.corruptions.noise import _counts

    source = torch.Generator().manual_seed(0)
    for byte, photons in ((1, 9), (40, 9), (255, 9), (128, 150)):
        drawn = _counts(torch.full((60_000,), byte / 255), photons, source).numpy()
        rate = photons * byte / 255
        counts = np.arange(drawn.max() + 1)
        expected = 60_000 * stats.poisson.pmf(counts, rate)
        common = expected > 10
        seen = np.bincount(drawn, minlength=len(counts))
        found = stats.chisquare(
            np.append(seen[common], seen[~common].sum() + 10),
            np.append(expected[common], 60_000 - expected[common].sum() + 10),
            sum_check=False,
        )
        assert found.pvalue > 1e-4
    assert not _counts(torch.zeros(1000), 150, source).any()


def test_the_gaussian_blur_is_scipys():
    x = photographs(3).double() / 255
    got = fields.blur(x, 1.5)
    truth = ndimage.gaussian_filter(x.numpy(), (0, 0, 1.5, 1.5), mode="nearest", truncate=5 / 1.5)
    # both cut the tails: ours at 5 pixels, three and a third deviations
    np.testing.assert_allclose(got, truth, atol=1e-12)


def test_blurs_keep_a_constant_and_the_mean():
    flat = torch.full((2, 3, 32, 32), 0.3)
    for name in ("gaussian_blur", "defocus_blur", "motion_blur", "zoom_blur", "glass_blur"):
        torch.testing.assert_close(corrupt(flat, name, 5), flat, atol=1e-6, rtol=0)
    point = torch.zeros(1, 1, 33, 33)
    point[..., 16, 16] = 1
    for name in ("gaussian_blur", "defocus_blur", "motion_blur"):
        assert float(corrupt(point, name, 5).sum()) == pytest.approx(1, abs=1e-4)


def test_a_disk_is_as_large_as_it_is_said_to_be():
    point = torch.zeros(1, 1, 41, 41)
    point[..., 20, 20] = 1
    spread = fields.disk(point, 6.0)[0, 0]
    row, column = fields.grid(point)
    far = ((row - 20) ** 2 + (column - 20) ** 2).sqrt()
    assert float(spread[far > 7].abs().sum()) < 1e-5  # a sum of products, each of which is no disk
    # the mean of r^2 over a disk is R^2 / 2; a pixel adds its own 1/6
    assert float((spread * far**2).sum()) == pytest.approx(18, rel=0.02)


def test_compression_is_that_of_pillow():
    Image = pytest.importorskip("PIL.Image")
    x = photographs(6)
    for quality in (50, 18):
        mine = (255 * compressed(x.float() / 255, quality)).clamp(0, 255)
        files = []
        for one in x:
            buffer = io.BytesIO()
            Image.fromarray(one.permute(1, 2, 0).numpy()).save(
                buffer, "JPEG", quality=quality, subsampling="4:2:0"
            )
            files.append(torch.tensor(np.asarray(Image.open(buffer))).permute(2, 0, 1))
        theirs = torch.stack(files).float()
        # it upsamples colour in another way and rounds in integers: the same picture within a few levels of 256
        away = (mine - theirs).square().mean().sqrt()
        assert float(away) < 0.35 * float((theirs - x.float()).square().mean().sqrt())


def test_rotations_are_scipys():
    x = digits(4).float() / 255
    got = corrupt(x, "rotate", 3)
    for one, mine in zip(x, got, strict=True):
        turned = [ndimage.rotate(one[0].numpy(), a, reshape=False, order=1) for a in (31, -31)]
        assert min(np.abs(mine[0].numpy() - t).max() for t in turned) < 0.02


def test_moved_images_keep_their_mass_and_places():
    x = torch.zeros(8, 1, 32, 32)
    x[..., 14:18, 14:18] = 1
    moved = corrupt(x, "translate", 5)
    row, column = fields.grid(x)
    middle = [(moved * p).sum((1, 2, 3)) / moved.sum((1, 2, 3)) for p in (row, column)]
    far = ((middle[0] - 15.5) ** 2 + (middle[1] - 15.5) ** 2).sqrt()
    np.testing.assert_allclose(far, 0.26 * 32, rtol=0.01)
    large = torch.zeros(2, 1, 32, 32)
    large[..., 8:24, 8:24] = 1
    np.testing.assert_allclose(corrupt(large, "scale", 3).sum((1, 2, 3)), 256 * 0.63**2, rtol=0.02)
    np.testing.assert_allclose(corrupt(x, "shear", 4).sum((1, 2, 3)), 16, rtol=0.02)


def test_brightness_and_contrast_and_saturation_are_their_formulas():
    x = photographs(3).double() / 255
    value = x.amax(1)
    got = corrupt(x, "brightness", 2).double()
    torch.testing.assert_close(got.amax(1), (value + 0.2).clamp_max(1), atol=1e-5, rtol=0)
    mean = x.mean((-2, -1))
    faded = corrupt(x, "contrast", 4).double()
    torch.testing.assert_close(faded.mean((-2, -1)), mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(faded.std((-2, -1)), 0.25 * x.std((-2, -1)), atol=1e-5, rtol=0)
    garish = corrupt(x, "saturate", 1).double()
    torch.testing.assert_close(garish.amax(1), value, atol=1e-5, rtol=0)
    saturation = 1 - x.amin(1) / value
    dull = (saturation < 0.6) & (value > 0.05)
    more = 1 - garish.amin(1) / garish.amax(1)
    torch.testing.assert_close(more[dull], 1.6 * saturation[dull], atol=1e-3, rtol=0)


def test_pixels_are_as_few_as_they_are_said_to_be():
    got = corrupt(photographs(2).float() / 255, "pixelate", 4)
    blocks = got.unfold(2, 4, 4).unfold(3, 4, 4)
    torch.testing.assert_close(blocks, blocks[..., :1, :1].expand_as(blocks))


def test_stripes_turn_black_into_white_where_they_are():
    x = digits(5).float() / 255
    got = corrupt(x, "stripe", 2)
    inverted = (got == 1 - x).all(-2).all(1)
    same = (got == x).all(-2).all(1)
    assert (inverted | same).all()
    np.testing.assert_allclose(inverted.float().mean(-1), 0.18, atol=1 / 28)


def test_strokes_only_add_light():
    x = digits(6)
    for name in ("dotted_line", "zigzag"):
        for severity in (1, 5):
            assert (corrupt(x, name, severity) >= x).all()


def test_edges_of_a_square_are_its_outline():
    x = torch.zeros(1, 1, 32, 32)
    x[..., 8:24, 8:24] = 1
    found = edges(x)[0, 0].bool()
    row, column = fields.grid(x)
    away = torch.maximum((row - 15.5).abs(), (column - 15.5).abs())
    assert not found[(away - 8).abs() > 2].any()
    # all around: every row and column of the square meets it
    assert found[10:22].any(1).all()
    assert found[:, 10:22].any(0).all()
    assert not edges(torch.full((1, 1, 32, 32), 0.7)).any()


def test_clouds_are_between_0_and_1_and_rougher_if_told():
    source = torch.Generator().manual_seed(0)
    x = torch.zeros(20, 1, 64, 64)
    smooth, rough = fields.fractal(source, x, 0.3), fields.fractal(source, x, 0.9)
    for field in (smooth, rough):
        assert (float(field.min()), float(field.max())) == (0, 1)
    assert rough.diff(dim=-1).abs().mean() > 2 * smooth.diff(dim=-1).abs().mean()


def test_the_contact_sheet_shows_every_corruption_at_every_severity(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from cbdl import plots
    from cbdl.plots.corruptions import contact_sheet

    sheet = Figure()
    image = load("digits", "test")[:1]
    contact_sheet(sheet, image)
    assert len(sheet.axes) == 6 * (len(CORRUPTIONS) - 1)  # grey images have no saturation
    assert [panel.get_title() for panel in sheet.axes[:6]] == ["clean", "1", "2", "3", "4", "5"]
    plots.save(lambda figure: contact_sheet(figure, image, ["contrast"]), tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 1_000
