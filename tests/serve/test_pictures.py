"""A service for pictures: its answers are those of the model, and what is no picture of the right size is refused."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from clients import ask
from PIL import Image

import cbdl
from cbdl.serve import Limits, application, of_images
from cbdl.serve.images import load_served
from cbdl.tables.answers import Trained
from cbdl.tables.errors import TableError

SIDE = 16
"""Of the pictures of the fixtures."""


def file(values: np.ndarray, kind: str = "PNG", mode: str | None = None) -> bytes:
    """The bytes of an image file with these pixels (height, width) or (height, width, 3)."""
    image, content = Image.fromarray(values.astype(np.uint8)), io.BytesIO()
    (image if mode is None else image.convert(mode)).save(content, kind)
    return content.getvalue()


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture(scope="module")
def service(pictures):
    return application(load_served(pictures))


def test_answers_are_those_of_the_model(service, pictures, pixels):
    expected = cbdl.load(pictures).predict(pixels[:4, None].astype(np.float32), 16)
    question = {"images": [text(file(p)) for p in pixels[:3]], "draws": 16, "alpha": 0.2, "phi": 0.1}
    question["images"].append("data:image/png;base64," + text(file(pixels[3])))
    reply = ask(service, json=question)
    assert reply.status_code == 200, reply.text
    own = reply.json()["answers"]
    bounds = expected.probs.min(1), expected.probs.max(1)
    u = expected.uncertainty()
    for i, answer in enumerate(own):
        assert list(answer["probability"]) == ["cat", "dog", "elk"]
        assert np.allclose(list(answer["probability"].values()), np.stack(bounds, -1)[i], atol=1e-5)
        assert answer["epistemic"] == pytest.approx(u.epistemic[i], abs=1e-4)
        assert answer["decision"] in ("cat", "dog", "elk")
        assert answer["abstain"] == (answer["aleatoric"] > 0.1)
        assert answer["unknown"] == []


def test_a_form_with_files_is_answered_as_json_is(service, pixels):
    files = [("image", ("a.png", file(pixels[0]), "image/png")), ("image", ("b.png", file(pixels[1])))]
    form = ask(service, files=files, data={"draws": "16", "alpha": "0.2", "phi": ""})
    json = ask(service, json={"images": [text(file(p)) for p in pixels[:2]], "draws": 16, "alpha": 0.2})
    assert form.status_code == 200, form.text
    assert form.json() == json.json()


def test_jpeg_palettes_and_colour_are_read(service, pixels):
    flat = np.full((SIDE, SIDE), 128)
    colour = np.repeat(flat[..., None], 3, -1)
    kinds = [file(flat), file(flat, "JPEG"), file(flat, mode="P"), file(colour), file(colour, mode="RGBA")]
    # one question each: rows of one batch may differ by rounding
    first, *others = (ask(service, json={"images": [text(kind)]}).json()["answers"] for kind in kinds)
    assert all(own == first for own in others)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            file(np.zeros((SIDE, SIDE + 1))),
            "images[0] has 17 x 16 pixels; the model takes 16 x 16 pixels, grey",
        ),
        (b"GIF89a", "not a PNG or JPEG"),
        (file(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) ** 2 % 251)[:120], "images[0] is broken"),
        (b"", "not a PNG or JPEG"),
    ],
    ids=["size", "format", "broken", "empty"],
)
def test_other_files_are_refused_with_words(service, content, words):
    for asked in ({"json": {"images": [text(content)]}}, {"files": {"image": ("a.png", content)}}):
        reply = ask(service, **asked)
        assert reply.status_code == 422
        assert words in reply.json()["detail"]


def test_sixteen_bits_are_not_cut_off_silently(service):
    content = io.BytesIO()
    Image.fromarray(np.zeros((SIDE, SIDE), dtype=np.uint16)).save(content, "PNG")
    reply = ask(service, json={"images": [text(content.getvalue())]})
    assert "8 bits a channel" in reply.json()["detail"]


def test_a_picture_of_gigabytes_is_refused_by_its_header(service):
    large = file(np.zeros((1, 1)))
    start = large.index(b"IHDR") + 4
    header = bytearray(large)
    header[start : start + 8] = (30_000).to_bytes(4, "big") * 2
    reply = ask(service, json={"images": [text(bytes(header))]})
    assert reply.status_code == 422


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"json": {"images": ["no base64!"]}}, 422, "images[0] is not base64"),
        ({"json": {"images": []}}, 422, "images"),
        ({"json": {"images": [3]}}, 422, "images"),
        ({"json": {"alpha": 0.1}}, 422, "one of them"),
        ({"json": {"rows": [{"x": 1}]}}, 422, "send images"),
        ({"json": {"rows": [{"x": 1}], "images": ["aa"]}}, 422, "one of them"),
        ({"data": {"alpha": "0.1"}, "files": {"image": ("a.png", b"")}}, 422, "images[0]"),
        ({"data": {"alpha": "2"}, "files": {"image": ("a.png", b"x")}}, 422, "alpha"),
        ({"data": {"what": "2"}, "files": {"image": ("a.png", b"x")}}, 422, "what"),
        (
            {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}},
            422,
            "the form cannot be read",
        ),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=a"}}, 422, "form"),
    ],
)
def test_nonsense_is_refused_with_words(service, asked, status, words):
    reply = ask(service, **asked)
    assert reply.status_code == status
    assert words in reply.json()["detail"]


def test_too_many_and_too_large_images_are_refused(pictures, pixels):
    small = application(load_served(pictures), Limits(rows=1, body=2000))
    two = [("image", ("a.png", file(pixels[0]))) for _ in range(2)]
    assert ask(small, json={"images": [text(file(p)) for p in pixels[:2]]}).status_code == 413
    assert ask(small, files=two).status_code in (413, 422)
    noise = np.random.default_rng(1).integers(0, 256, (64, 64))
    assert ask(small, files={"image": ("a.png", file(noise))}).status_code == 413


def test_the_description_says_what_pictures_are_taken(service):
    about = ask(service, "/v1/model").json()
    assert about["image"] == {"channels": 1, "height": SIDE, "width": SIDE, "white": 255}
    assert about["columns"] == []
    body = ask(service, "/openapi.json").json()["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "multipart/form-data"}
    assert ask(service, json=body["application/json"]["example"]).status_code == 200


def test_a_model_of_pixels_in_a_table_takes_pictures_too(digits):
    from sklearn.datasets import load_digits

    trained = Trained.load(digits)
    bunch = load_digits()
    images = bunch.images[:5] * 255 / 16
    rows = [dict(zip(bunch.feature_names, map(float, row), strict=True)) for row in bunch.data[:5]]
    service = application(trained)
    seen = ask(service, json={"images": [text(file(np.round(i))) for i in images]}).json()["answers"]
    read = ask(service, json={"rows": rows}).json()["answers"]
    for a, b in zip(seen, read, strict=True):
        assert a["decision"] == b["decision"]
        assert a["total"] == pytest.approx(b["total"], abs=0.05)  # bytes are coarser than sixteenths


def test_images_to_a_model_of_a_table_are_refused(of_classes, pixels):
    reply = ask(application(of_classes), json={"images": [text(file(pixels[0]))]})
    assert reply.status_code == 422
    assert "send rows" in reply.json()["detail"]


def test_a_model_from_python_is_served_and_one_of_other_rows_is_refused(pictures, pixels):
    model = cbdl.load(pictures)
    reply = ask(application(of_images(model, white=255.0)), json={"images": [text(file(pixels[0]))]})
    assert reply.status_code == 200
    assert ask(application(model), "/v1/model").json()["image"]["white"] == 1.0
    flat = cbdl.CBDL(
        [cbdl.priors.Normal(0, 1)],
        [cbdl.likelihoods.Categorical(cbdl.nets.mlp(4, 2))],
        cbdl.MeanField(epochs=1),
        verbose=False,
    ).fit(np.zeros((8, 4)), np.arange(8) % 2)
    with pytest.raises(TableError, match="rows of shape"):
        application(flat)
