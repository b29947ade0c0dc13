"""What the service answers is what `cbdl predict` answers, and what it cannot answer it refuses with words."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from dataclasses import replace

import httpx
import numpy as np
import pyarrow as pa
import pytest
from clients import ask, talk
from prometheus_client.parser import text_string_to_metric_families

from cbdl.serve import Limits, app, application
from cbdl.serve.answers import NoAnswer
from cbdl.serve.rows import encoded
from cbdl.tables import answers
from cbdl.tables.answers import Options

ROWS = [
    {"x": 0.5, "z": -1.25, "colour": "red"},
    {"x": -2, "z": 0.75, "colour": "blue"},
    {"x": None, "z": 0.75, "colour": "green"},
    {"x": 1.5, "z": 0.25, "colour": "never seen"},
]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(of_classes):
    return application(of_classes)


def from_table(trained, folder, lines: list[str], options: Options) -> list[dict]:
    """What `cbdl predict` says about a file with these lines."""
    (folder / "new.csv").write_text("\n".join(lines) + "\n")
    return [row for part in answers.predict(trained, folder / "new.csv", options) for row in part.rows()]


# --- answers --------------------------------------------------------------------------------------------------


def test_answers_for_classes_are_those_for_a_table(service, of_classes, tmp_path):
    lines = ["x,z,colour", "0.5,-1.25,red", "-2,0.75,blue", ",0.75,green", "1.5,0.25,never seen"]
    expected = from_table(of_classes, tmp_path, lines, Options(0.1, "minimal", 16, floor=True, phi=0.2))
    question = {"rows": ROWS, "alpha": 0.1, "method": "minimal", "draws": 16, "phi": 0.2}
    own = ask(service, json=question).json()["answers"]
    assert [a["unknown"] for a in own] == [[], [], ["x"], ["colour"]]
    for a, b in zip(own, expected, strict=True):
        assert (a["decision"], a["region"], a["abstain"]) == (b["decision"], b["set"], b["abstain"])
        bounds = [[b[f"{side}:{c}"] for side in ("lower", "upper")] for c in ("no", "yes")]
        # networks are in single precision
        assert [a["probability"][c] for c in ("no", "yes")] == [pytest.approx(p, abs=1e-5) for p in bounds]
        for name in ("aleatoric", "epistemic", "total", "floor"):
            assert a[name] == pytest.approx(b[name], abs=1e-4)
        assert a["epistemic_bracket"] == pytest.approx([b["epistemic_lower"], b["epistemic_upper"]], abs=1e-4)


def test_answers_for_numbers_are_those_for_a_table(of_numbers, tmp_path):
    lines = ["x,day", "0.5,2024-03-04", "-1.5,"]
    expected = from_table(of_numbers, tmp_path, lines, Options(0.2, floor=True))
    rows = [{"x": 0.5, "day": "2024-03-04", "unasked": 1}, {"x": -1.5, "day": None}]
    reply = ask(application(of_numbers), json={"rows": rows, "alpha": 0.2})
    for a, b in zip(reply.json()["answers"], expected, strict=True):
        assert a["decision"] == pytest.approx(b["decision"], rel=1e-6)
        assert a["interval"] == pytest.approx([b["lower"], b["upper"]], rel=1e-6)
        assert np.allclose(a["region"], b["set"], rtol=1e-6)
        assert a["epistemic"] == pytest.approx(b["epistemic"], rel=1e-5)
        assert a["abstain"] is None


def test_plain_numbers_are_read_as_a_table_reads_them(of_classes):
    """Rows of numbers alone take a way of their own."""
    numbers = replace(of_classes, columns=of_classes.columns[:2])
    rows = [{"x": 1, "z": -0.25}, {"x": None, "z": 1e-300}, {"x": -3.5, "z": None}]
    own = encoded(numbers, rows, Options())
    chunk = {"x": pa.array(["1", "", "-3.5"]), "z": pa.array(["-0.25", "1e-300", "NA"])}
    expected = answers.read_rows(numbers, chunk, Options(), 0)
    for name in ("X", "missing", "unknown"):
        np.testing.assert_array_equal(getattr(own, name), getattr(expected, name))
    mixed = encoded(numbers, [{"x": "1", "z": -0.25}, *rows[1:]], Options())
    np.testing.assert_array_equal(mixed.X, own.X)


def test_requests_that_come_together_are_answered_together_and_each_gets_its_own(of_classes, monkeypatch):
    sizes = []

    def answer(trained, rows, options):
        sizes.append(len(rows))
        return original(trained, rows, options)

    original = app.answer
    monkeypatch.setattr(app, "answer", answer)
    values = np.linspace(-3, 3, 16)

    async def sixteen(client):
        bodies = [{"rows": [{"x": v, "z": 0.0, "colour": "red"}]} for v in values]
        return await asyncio.gather(*(client.post("/v1/predict", json=body) for body in bodies))

    replies = talk(application(of_classes), sixteen)
    alone = ask(
        application(of_classes), json={"rows": [{"x": v, "z": 0.0, "colour": "red"} for v in values]}
    ).json()
    together = [r.json()["answers"][0]["probability"]["yes"] for r in replies]
    assert together == [pytest.approx(a["probability"]["yes"], abs=1e-5) for a in alone["answers"]]
    assert together[0][1] < together[-1][0]
    first, *batches, second, whole = sizes
    assert (first, second, whole) == (1, 1, 16)  # both services answer once when they start
    assert sum(batches) == 16
    assert len(batches) <= 4


def test_one_request_without_an_answer_does_not_take_others_with_it(of_numbers, monkeypatch):
    original = app.answer

    def answer(trained, rows, options):
        far = np.abs(rows.X).max(1) > 1e20  # as if nothing could be computed from it
        if far.any():
            raise NoAnswer(int(far.argmax()))
        return original(trained, rows, options)

    monkeypatch.setattr(app, "answer", answer)
    good, bad = {"x": 0.5, "day": "2024-03-04"}, {"x": 1e30, "day": "2024-03-04"}

    async def both(client):
        return await asyncio.gather(
            *(client.post("/v1/predict", json={"rows": [r]}) for r in (good, bad, good))
        )

    replies = talk(application(of_numbers), both)
    assert [r.status_code for r in replies] == [200, 422, 200]
    assert "so far from what the model was trained on" in replies[1].json()["detail"]


# --- refusals -------------------------------------------------------------------------------------------------

GOOD = json.dumps({"rows": ROWS[:1]})


def cell(value: str) -> str:
    return '{"rows": [{"x": VALUE, "z": 0, "colour": "red"}]}'.replace("VALUE", value)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("", 422, "not JSON"),
        ("{", 422, "not JSON"),
        ("[]", 422, "object"),
        ("\x00", 422, "not JSON"),
        ("[" * 100_000, 422, "recursion"),
        ('{"rows":' * 50_000, 422, "recursion"),
        ('{"rows": []}', 422, "rows"),
        ('{"rows": [3]}', 422, "rows[0]"),
        ('{"rows": [{"x": 1, "z": 2}]}', 422, "rows[0] has no 'colour'"),
        (cell("NaN"), 422, "rows[0]: 'x' must be a finite number"),
        (cell("Infinity"), 422, "finite number"),
        (cell("1e999"), 422, "finite number"),
        (cell("1" + "0" * 400), 422, "not a finite number"),
        (cell("-1" + "0" * 4000), 422, "not a finite number"),
        (cell("1" + "0" * 9000), 422, "number out of range"),
        (cell("1e300"), 422, "too large a number"),
        (cell('"three"'), 422, "column 'x', row 0: 'three' is not a finite number"),
        (cell("true"), 422, "not a finite number"),
        (cell("[1]"), 422, "rows[0]: 'x'"),
        (cell('{"a": 1}'), 422, "rows[0]: 'x'"),
        (cell('"\\ud800"'), 422, "not JSON"),
        (GOOD[:-1] + ', "alpha": 1}', 422, "alpha"),
        (GOOD[:-1] + ', "alpha": "0.1"}', 422, "alpha"),
        (GOOD[:-1] + ', "draws": 0}', 422, "draws"),
        (GOOD[:-1] + ', "draws": 100000}', 422, "at most 512"),
        (GOOD[:-1] + ', "method": "best"}', 422, "method"),
        (
            GOOD[:-1] + ', "more": 1}',
            422,
            "more: a question has no such part; it may have rows, images, alpha",
        ),
        (json.dumps({"rows": ROWS[:1] * 1001}), 413, "at most 1000"),
        (" " * ((4 << 20) + 1), 413, "larger than 4194304 bytes"),
    ],
)
def test_bad_questions_are_refused_with_words(service, body, status, words):
    reply = ask(service, content=body.encode(), headers=JSON)
    assert reply.status_code == status
    assert words in reply.json()["detail"]
    assert reply.json()["status"] == status


def test_a_body_without_a_length_is_cut_off_too(of_classes):
    async def endless():
        while True:
            yield b" " * 1000

    reply = ask(application(of_classes, Limits(body=10_000)), content=endless(), headers=JSON)
    assert reply.status_code == 413


def test_only_json_is_read(service):
    assert ask(service, content=GOOD.encode(), headers={"Content-Type": "text/plain"}).status_code == 415
    assert ask(service, content=GOOD.encode()).status_code == 415
    packed = ask(service, content=gzip.compress(GOOD.encode()), headers={**JSON, "Content-Encoding": "gzip"})
    assert packed.status_code == 415
    assert "content encoding is gzip; send the body as it is" in packed.json()["detail"]


def test_head_is_get_without_its_body(of_classes):
    async def visits(client):
        paths = ("/", "/healthz", "/v1/model", "/v1/predict", "/static/page.js")
        return [[await getattr(client, how)(path) for how in ("get", "head")] for path in paths]

    for whole, head in talk(application(of_classes), visits):
        assert head.status_code == whole.status_code
        assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.content))
        assert head.content == b""


def test_other_paths_and_methods_are_refused_in_the_same_form(service):
    assert ask(service, "/v2").json() == {"status": 404, "detail": "there is no such path; see /docs"}
    assert ask(service, "/v1/predict").json()["status"] == 405
    assert ask(service, "/v1/model/").json()["status"] == 404
    assert ask(service, "/static/..%2Fapp.py").status_code == 404


def test_slow_answers_and_long_queues_are_refused(of_classes, monkeypatch):
    original, slow = app.answer, [0.0]

    def answer(trained, rows, options):
        time.sleep(slow[0])
        return original(trained, rows, options)

    monkeypatch.setattr(app, "answer", answer)

    async def crowd(client):
        slow[0] = 0.6
        first = asyncio.create_task(client.post("/v1/predict", json={"rows": ROWS[:1]}))
        await asyncio.sleep(0.1)
        several = [client.post("/v1/predict", json={"rows": ROWS[:2]}) for _ in range(3)]
        others = await asyncio.gather(*several)
        slow[0] = 0.0
        await asyncio.sleep(0.5)
        return [await first, *others, await client.post("/v1/predict", json={"rows": ROWS[:1]})]

    limits = Limits(rows=2, waiting=4, seconds=0.3)
    replies = talk(application(of_classes, limits), crowd)
    assert [r.status_code for r in replies] == [503, 503, 503, 429, 200]
    assert "longer than 0.3 seconds" in replies[0].json()["detail"]
    assert "wait for their answers already" in replies[3].json()["detail"]
    assert int(replies[3].headers["Retry-After"]) >= 1


def test_a_failure_of_ours_is_no_secret_and_no_page_of_code(of_classes, monkeypatch, caplog):
    service = application(of_classes)

    async def failing(client):
        monkeypatch.setattr(app, "answer", lambda *_: {}["secret"])
        return await client.post("/v1/predict", json={"rows": ROWS[:1]})

    reply = talk(service, failing)
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "KeyError: 'secret'" in caplog.text


def test_limits_make_sense():
    with pytest.raises(ValueError, match="rows is 0"):
        Limits(rows=0)
    with pytest.raises(ValueError, match="waiting is 5"):
        Limits(waiting=5)


# --- the door, and what operators see -------------------------------------------------------------------------


def test_a_token_is_asked_for(of_classes):
    service = application(of_classes, token="s3cret")

    async def visits(client):
        codes = {}
        for path in (
            "/",
            "/docs",
            "/static/page.js",
            "/healthz",
            "/readyz",
            "/v1/model",
            "/metrics",
            "/openapi.json",
        ):
            codes[path] = (await client.get(path)).status_code
        words = [
            "Bearer wrong",
            "Bearer s3cre",
            "Basic s3cret",
            "s3cret",
            "Bearer \xff",
            "Bearer s3cret",
            "bearer s3cret",
        ]
        tries = [
            await client.get("/v1/model", headers={b"Authorization": word.encode("latin-1")})
            for word in words
        ]
        return codes, tries

    codes, tries = talk(service, visits)
    assert {path for path, code in codes.items() if code == 401} == {"/v1/model", "/metrics", "/openapi.json"}
    assert set(codes.values()) == {200, 401}
    assert [t.status_code for t in tries] == [401, 401, 401, 401, 401, 200, 200]
    assert tries[0].headers["WWW-Authenticate"] == "Bearer"
    assert "Authorization: Bearer" in tries[0].json()["detail"]
    spec = service.openapi()
    assert spec["paths"]["/v1/predict"]["post"]["security"] == [{"bearer": []}]
    assert spec["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_the_model_is_described(service, of_numbers):
    about = ask(service, "/v1/model").json()
    assert (about["task"], about["classes"], about["image"]) == ("classification", ["no", "yes"], None)
    x, _, colour = about["columns"]
    assert x["range"][0] < x["typical"] < x["range"][1]
    assert colour["levels"] == ["blue", "green", "red"]
    day = ask(application(of_numbers), "/v1/model").json()["columns"][1]
    assert day["format"] == "%Y-%m-%d"
    assert len(day["typical"]) == len("2024-01-01")


def test_the_example_of_the_description_is_answered(service, of_numbers):
    for own in (service, application(of_numbers)):
        body = own.openapi()["paths"]["/v1/predict"]["post"]["requestBody"]
        assert ask(own, json=body["content"]["application/json"]["example"]).status_code == 200


def test_it_is_ready_only_while_it_runs(of_classes):
    service = application(of_classes)

    async def early():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(service), base_url="http://service"
        ) as client:
            return [
                await client.get("/readyz"),
                await client.get("/healthz"),
                await client.post("/v1/predict", json={"rows": ROWS}),
            ]

    assert [r.status_code for r in asyncio.run(early())] == [503, 200, 503]
    assert ask(service, "/readyz").status_code == 200


def test_prometheus_reads_what_was_counted(of_classes):
    async def visits(client):
        await client.post("/v1/predict", json={"rows": ROWS, "phi": -1.0})
        await client.post("/v1/predict", json={"rows": []})
        await client.get("/somewhere/else")
        return await client.get("/metrics")

    reply = talk(application(of_classes), visits)
    assert reply.headers["content-type"].startswith("text/plain")
    samples = {
        (s.name, *sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(reply.text)
        for s in family.samples
    }
    assert samples[("cbdl_requests_total", ("path", "/v1/predict"), ("status", "200"))] == 1
    assert samples[("cbdl_requests_total", ("path", "/v1/predict"), ("status", "422"))] == 1
    assert samples[("cbdl_requests_total", ("path", "other"), ("status", "404"))] == 1
    assert samples[("cbdl_rows_total",)] == samples[("cbdl_abstained_rows_total",)] == 4
    assert samples[("cbdl_epistemic_nats_count",)] == 4
    assert samples[("cbdl_batch_rows_sum",)] == 4
    assert samples[("cbdl_waiting_rows",)] == 0
