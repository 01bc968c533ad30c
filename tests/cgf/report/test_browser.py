"""The report's page in a real headless browser, from a file: no error, no network, no scrolling sideways."""

import shutil

import pytest
from test_report import root  # noqa: F401  (the fixture of made-up results)

from cgf.report.collect import collect
from cgf.report.page import write_page

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    """Chromium of the system, driven by playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser among {', '.join(NAMES)}: apt-get install chromium (playwright's own is no package)")
    with api.sync_playwright() as play:
        yield play.chromium.launch(executable_path=found, args=["--no-sandbox"])


@pytest.fixture
def opened(browser, root):  # noqa: F811
    """(page, errors, requests beyond the file) of the report."""
    path = write_page(collect(root), root / "report.html")
    page = browser.new_page(viewport={"width": 390, "height": 844})
    errors, requests = [], []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    yield page, errors, [url for url in requests if not url.startswith((path.as_uri(), "data:"))]
    page.close()


def test_it_opens_without_an_error_and_without_the_network(opened):
    page, errors, requests = opened
    assert not errors and not requests
    assert page.locator("figure img").count() == 4
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_does_not_scroll_sideways(opened, width):
    page, _, _ = opened
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_point_names_its_row(opened):
    page, _, _ = opened
    assert "levels" in page.locator("svg.levels .point title").first.text_content()
    assert page.locator("svg.levels .point.ckks").count() >= 1


def test_it_is_light_dark_and_printed(opened):
    page, _, _ = opened
    shades = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        shades[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="light", media="print")
    assert len(set(shades.values())) == 2
    assert page.evaluate("getComputedStyle(document.querySelector('main')).paddingTop") == "0px"
    assert len(page.pdf()) > 10_000
