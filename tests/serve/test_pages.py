"""The pages: valid, without anything from elsewhere, and usable in a real browser by pointer and by keyboard."""

from __future__ import annotations

import re
import time
from pathlib import Path

import html5lib
import pytest
from browser import AXE, chromium, needed, violations
from clients import ask, served

from cbdl.serve import application, pages
from cbdl.serve.described import picture
from cbdl.serve.images import load_served
from cbdl.tables.answers import Trained
from cbdl.tables.encoding import Column

FILES = pages.load()
THREE = [(-40, -90), (30, -100), (60, -60), (0, -10), (60, 30), (50, 90), (-50, 90)]
SCRIBBLE = [(-130, -120), (120, 100), (-120, 90), (110, -110), (0, 130), (-130, 0), (130, 10), (-20, -130)]
SCRIBBLE += [(60, 130), (-90, -60), (130, -60), (-130, 120), (130, 130), (-60, -130)]


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith(".html")])
def test_a_page_is_valid_and_needs_nothing_from_elsewhere(name):
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(FILES[name][0].decode())
    for e in tree.iter():
        for attribute in ("src", "href"):
            place = e.get(attribute, "/")
            assert place.startswith("/")
            assert not place.startswith("//")
            assert not place.startswith("/static/") or place.removeprefix("/static/") in FILES
        assert e.get("style") is None  # the page's own policy would not allow it
        assert e.tag != "script" or e.get("src")


def test_no_file_names_another_place():
    for name, (content, _) in FILES.items():
        places = re.findall(r"https?://[^\s\"'`]+", content.decode())
        assert set(places) <= {"http://www.w3.org/2000/svg"}, name
        for module in re.findall(r'from "\./([^"]+)"', content.decode()):
            assert module in FILES


def test_pages_are_sent_with_a_policy(of_classes):
    reply = ask(application(of_classes), "/")
    assert reply.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert (
        ask(application(of_classes), "/static/pad.js").headers["content-type"].startswith("text/javascript")
    )


def test_pixels_are_known_by_their_names_and_values():
    def column(row: int, left: int, most: float = 16.0) -> Column:
        return Column(f"pixel_{row}_{left}", "number", values=((0.0,), (most,)))

    whole = [column(r, c) for r in range(8) for c in range(8)]
    image = picture(whole)
    assert image is not None
    assert image["pixels"]["pixel_3_5"] == [3, 5]
    assert picture(whole[1:]) is not None  # pixels that are always white are no columns
    assert picture([*whole[1:], column(0, 0, 255.0)]) is None
    assert picture([*whole, column(8, 0)]) is None
    assert picture(whole[:20]) is None


# --- in a browser ---------------------------------------------------------------------------------------------


class Page:
    """The page at an address, as a person uses it."""

    def __init__(self, driver, url: str) -> None:
        self.driver = driver
        driver.get(url)

    @property
    def count(self) -> int:
        return int(self.driver.execute_script("return document.getElementById('answer').dataset.count ?? 0"))

    def wait(self, condition, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.text("problem")
            time.sleep(0.02)

    def settle(self) -> None:
        """Until no answer has come for a moment."""
        last, since = self.count, time.monotonic()
        while time.monotonic() < since + 0.3:
            if self.count != last:
                last, since = self.count, time.monotonic()
            time.sleep(0.02)

    def text(self, name: str) -> str:
        return self.driver.find_element("id", name).text

    def gauge(self, name: str) -> float:
        return float(self.driver.find_element("id", name).get_attribute("aria-valuenow"))

    def press(self, title: str) -> None:
        self.driver.find_element("xpath", f"//button[text()='{title}']").click()
        self.settle()

    def draw(self, points: list[tuple[int, int]]) -> None:
        """One stroke on the pad with the pointer; points are from its middle."""
        from selenium.webdriver import ActionChains

        pad = self.driver.find_element("id", "pad")
        hand = ActionChains(self.driver, duration=15)
        hand.move_to_element_with_offset(pad, *points[0]).click_and_hold()
        for point in points[1:]:
            hand.move_to_element_with_offset(pad, *point)
        hand.release().perform()
        self.settle()

    def picture(self, folder: Path, name: str) -> None:
        self.driver.save_screenshot(str(folder / f"{name}.png"))

    def errors(self) -> list[str]:
        return [e["message"] for e in self.driver.get_log("browser")]


def screen(driver, width: int, scheme: str) -> None:
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def fits(driver) -> bool:
    """Whether nothing is wider than the screen."""
    return driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """One browser for all of them: its start takes seconds."""
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def test_a_digit_is_read_and_a_scribble_raises_the_epistemic_gauge(driver, digits, tmp_path):
    needed(AXE)
    from selenium.webdriver.common.keys import Keys

    with served(application(Trained.load(digits))) as url:
        screen(driver, 1100, "light")
        page = Page(driver, url)
        page.wait(lambda: page.count > 0)
        page.press("Clear")
        assert page.text("decision") == "Draw something"
        page.draw(THREE)
        assert page.text("decision") == "y: 3"
        known = page.gauge("ignorance")
        page.picture(tmp_path, "three")
        # abstain at any noise; then not
        driver.find_element("id", "may-abstain").click()
        driver.execute_script(
            "const phi = document.getElementById('phi'); phi.value = 0; phi.dispatchEvent(new Event('input'))"
        )
        page.wait(lambda: page.text("decision") == "I abstain")
        driver.find_element("id", "may-abstain").click()
        page.wait(lambda: page.text("decision") == "y: 3")
        page.press("Clear")
        page.draw(SCRIBBLE)
        page.picture(tmp_path, "scribble")
        assert page.gauge("ignorance") > 2 * known + 0.2
        # with keys alone: a line down is a one
        page.press("Clear")
        pad = driver.find_element("id", "pad")
        pad.send_keys(Keys.ARROW_UP * 10, Keys.SPACE, Keys.ARROW_DOWN * 20, Keys.SPACE)
        page.settle()
        assert page.text("decision") == "y: 1"
        assert len(driver.find_elements("css selector", "#bounds tbody tr")) == 10
        for width, scheme in ((390, "dark"), (1100, "light")):
            screen(driver, width, scheme)
            assert fits(driver)
            assert violations(driver) == []
            page.picture(tmp_path, f"{width}-{scheme}")
        assert page.errors() == []


def test_a_form_moves_the_region_and_the_door_asks_for_the_token(driver, line, tmp_path):
    needed(AXE)
    from selenium.webdriver.common.keys import Keys

    with served(application(Trained.load(line), token="s3cret")) as url:
        screen(driver, 390, "light")
        page = Page(driver, url)
        door = driver.find_element("id", "token")
        page.wait(door.is_displayed)
        assert page.text("problem") == "This service wants to know its token."
        door.send_keys("wrong", Keys.ENTER)
        page.wait(lambda: page.text("problem") == "That is not the token of this service.")
        door.clear()
        door.send_keys("s3cret", Keys.ENTER)
        page.wait(lambda: page.count > 0)
        before, inside = page.text("region"), page.gauge("ignorance")
        slider = driver.find_element("id", "column-0")
        slider.send_keys(Keys.END)
        page.wait(lambda: page.text("region") != before)
        assert page.gauge("ignorance") > inside
        page.wait(lambda: driver.find_elements("css selector", "#curve svg polygon"))
        driver.find_element("id", "column-1-unknown").click()
        page.wait(lambda: "Not known: day" in page.text("region"))
        for width, scheme in ((1100, "dark"), (390, "light")):
            screen(driver, width, scheme)
            assert fits(driver)
            assert violations(driver) == []
            page.picture(tmp_path, f"form-{width}-{scheme}")
        driver.get(f"{url}/docs")
        driver.find_element("id", "token").send_keys("s3cret", Keys.ENTER)
        page.wait(lambda: driver.find_element("id", "send").is_displayed())
        driver.find_element("id", "send").click()
        page.wait(lambda: '"interval"' in page.text("reply"))
        assert fits(driver)
        assert violations(driver) == []
        assert [e for e in page.errors() if "401" not in e] == []


def test_a_picture_is_chosen_made_small_and_answered(driver, pictures, tmp_path):
    needed(AXE)
    from PIL import Image

    Image.new("RGB", (300, 200), "white").save(tmp_path / "white.png")
    (tmp_path / "words.png").write_text("no picture")
    with served(application(load_served(pictures))) as url:
        screen(driver, 1100, "light")
        page = Page(driver, url)
        page.wait(lambda: page.text("decision") == "Choose a picture")
        assert page.text("about").endswith("from a picture.")
        driver.find_element("id", "file").send_keys(str(tmp_path / "words.png"))
        page.wait(lambda: "no picture" in page.text("problem"))
        driver.find_element("id", "file").send_keys(str(tmp_path / "white.png"))
        page.wait(lambda: page.count == 1)
        brush = "document.querySelector('.picture canvas').getContext('2d')"
        seen = f"return Array.from({brush}.getImageData(0, 0, 16, 16).data)"
        assert set(driver.execute_script(seen)) == {255}
        assert page.text("decision").startswith("class: ")
        driver.find_element("id", "turned").click()
        page.wait(lambda: page.count == 2)
        assert driver.execute_script(seen)[:4] == [0, 0, 0, 255]
        page.press("Dots at random")
        page.wait(lambda: page.count == 3)
        for width, scheme in ((390, "dark"), (1100, "light")):
            screen(driver, width, scheme)
            assert fits(driver)
            assert violations(driver) == []
            page.picture(tmp_path, f"picture-{width}-{scheme}")
        assert page.errors() == []
