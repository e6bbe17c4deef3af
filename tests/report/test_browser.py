"""The page of `mpi-gt report` in a real browser."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest
from browser import Browser

from mpi_gt.cli.main import main

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def page(made, tmp_path_factory) -> Path:
    """The comparison, the profile, the bench, and a comparison with malicious names."""
    evil = made / "evil <i>name"
    if not evil.exists():
        shutil.copytree(made / "compare", evil)
        for name in ("run.json", "metrics.csv"):
            (evil / name).write_text((evil / name).read_text().replace("dsgd", EVIL))
    target = tmp_path_factory.mktemp("page") / "report.html"
    names = ("compare", "profile", "bench", evil.name)
    assert main(["report", *(str(made / name) for name in names), "-o", str(target)]) == 0
    return target


DRAWN = """(() => {
    const plot = document.getElementById("curves-plot");
    const last = plot.data[plot.data.length - 1];
    return JSON.stringify([plot.data.length, last.x, last.y, plot.layout.yaxis.type,
        plot.layout.yaxis.title.text, plot.layout.xaxis.title.text]);
})()"""


def test_every_switch_changes_what_is_drawn(browser, page):
    browser.open(page)
    seen = {browser.do(DRAWN)}
    names = {"metric": ["loss", "grad_norm2", "consensus"], "across": ["seconds", "bytes"]}
    names.update(scale=["linear"], seeds=["single"])
    for name, values in names.items():
        for value in values:
            browser.do(f"document.querySelector('input[name={name}][value={value}]').click()")
            now = browser.do(DRAWN)
            assert now not in seen, (name, value)
            seen.add(now)
    assert '"linear"' in now
    assert '"bytes sent per seed, all nodes"' in now
    assert browser.do("Plotly.toImage('curves-plot')").startswith("data:image/png")
    browser.do("document.querySelector('#shown input').click()")
    assert json.loads(browser.do(DRAWN))[0] == json.loads(now)[0] - 1
    assert browser.problems == []


def test_the_keyboard_reaches_the_switches_and_the_table(browser, page):
    browser.open(page)
    before = browser.do(DRAWN)
    browser.do("document.querySelector('input[name=scale]:checked').focus()")
    browser.press("ArrowRight", 39)
    browser.wait("document.getElementById('curves-plot').layout.yaxis.type === 'linear'")
    assert browser.do(DRAWN) != before
    column = (
        "[...document.querySelectorAll('#summary tbody tr')].map(r => r.children[6].dataset.value)"
    )
    button = "document.querySelectorAll('#summary thead button')[6]"
    browser.do(f"{button}.focus()")
    for order in (1, -1):
        browser.press("Enter", 13, "\r")
        gaps = [float(value) for value in browser.do(column)]
        assert gaps == sorted(gaps, reverse=order < 0)
        assert len(set(gaps)) > 1


def test_names_that_mean_harm_do_none(browser, page):
    browser.open(page)
    assert browser.do("document.querySelectorAll('img, main script').length") == 0
    assert "<img" in browser.do("document.getElementById('shown').textContent")
    assert "evil <i>name" in browser.do("document.querySelector('main').textContent")
    assert browser.problems == []


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("wide", 1280, False), ("phone", 390, False), ("dark", 1280, True)]
)
def test_how_it_looks(browser, page, name, width, dark):
    """Nothing is wider than the window, only the page is requested, and the text is legible."""
    browser.requests.clear()
    browser.open(page, width=width, dark=dark)
    assert browser.do("document.documentElement.scrollWidth") <= width
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    paper = browser.do("getComputedStyle(document.body).backgroundColor")
    ink = browser.do("getComputedStyle(document.querySelector('#curves-plot .xtick text')).fill")
    assert brightness(paper) < 60 < 180 < brightness(ink) if dark else brightness(ink) < 100
    assert browser.do("document.querySelectorAll('.plot .main-svg').length") >= 8
    browser.screenshot(page.parent / f"{name}.png")
    assert browser.problems == []


def test_plots_follow_when_the_scheme_changes(browser, page):
    browser.open(page)
    ink = "getComputedStyle(document.querySelector('#curves-plot .xtick text')).fill"
    light = browser.do(ink)
    browser.set_dark(True)
    end = time.monotonic() + 20
    while browser.do(ink) == light:
        assert time.monotonic() < end
        time.sleep(0.1)


def brightness(colour) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
