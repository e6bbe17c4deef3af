"""The page of `mpi-gt report` in a real browser."""

import csv
import json
import re
import shutil
import time
from pathlib import Path

import pytest

import mpi_gt
from mpi_gt.cli.main import main

EVIL = "</script><img src=x onerror=alert(1)>"


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


@pytest.fixture(scope="session")
def many(tmp_path_factory) -> Path:
    """Six methods on three graphs."""
    folder = tmp_path_factory.mktemp("many")
    methods = "gt-adaptive,gt,dsgd,dsgd-momentum,exact-diffusion,momentum-tracking"
    for graph in ("complete", "ring", "star"):
        mpi_gt.run(
            stacked=True, n=4, iterations=37, seeds=3, algorithms=methods, graph=graph,
            out=str(folder / graph),
        )  # fmt: skip
    assert main(["report", str(folder), "-o", str(folder / "report.html")]) == 0
    return folder / "report.html"


DRAWN = """(() => {
    const plot = document.getElementById("curves-plot");
    const last = plot.data[plot.data.length - 1];
    return JSON.stringify([plot.data.length, last?.x, last?.y, plot.layout.yaxis.type,
        plot.layout.yaxis.title.text, plot.layout.xaxis.title.text]);
})()"""


def test_every_switch_changes_what_is_drawn(browser, page):
    browser.open(page)
    seen = {browser.do(DRAWN)}
    names = {
        "metric": ["suboptimality", "loss", "grad_norm2", "consensus"],
        "across": ["seconds", "gradients", "bytes"],
        "scale": ["linear"],
        "seeds": ["mean", "single"],
    }
    for name, values in names.items():
        for value in values:
            browser.do(f"document.querySelector('input[name={name}][value={value}]').click()")
            now = browser.do(DRAWN)
            assert now not in seen, (name, value)
            seen.add(now)
    assert '"linear"' in now
    assert '"bytes sent per seed, all nodes"' in now
    assert browser.do("Plotly.toImage('curves-plot')").startswith("data:image/png")
    browser.do("document.querySelector('#legend input[data-curve]').click()")
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
        "[...document.querySelectorAll('#summary tbody tr')].map(r => r.children[1].dataset.value)"
    )
    button = "document.querySelectorAll('#summary thead button')[1]"
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


def test_colours_tell_methods_and_lines_tell_directories(browser, many):
    """Eighteen curves: the same colour means the same method, the same line the same directory."""
    browser.open(many)
    traces = browser.do(
        "document.getElementById('curves-plot').data.map(t => [t.name, t.line.color, "
        "t.line.dash + (t.marker?.symbol ?? '')])"
    )
    assert len(traces) == 18
    methods, places = {}, {}
    for name, colour, line in traces:
        method, _, place = name.partition(" · ")
        assert method.endswith("lr 0.01)")
        assert methods.setdefault(method, colour) == colour
        assert places.setdefault(place, line) == line
    assert len(set(methods.values())) == len(methods) == 6
    assert len(set(places.values())) == len(places) == 3
    # in the legend and the summary, each has a sample of its line
    samples = "[...document.querySelectorAll('%s .sample')].map(s => s.innerHTML)"
    legend = browser.do(samples % "#legend")
    assert len(set(legend)) == 18
    assert legend == browser.do(samples % "#summary")
    assert browser.problems == []


def test_more_curves_than_colours_and_lines_still_differ(browser, many):
    browser.open(many)
    looks = browser.do(
        "[...Array(20).keys()].flatMap(method => [...Array(40).keys()]"
        ".map(directory => JSON.stringify(look({method, directory}))))"
    )
    assert len(set(looks)) == 800


def test_all_and_none_and_one_directory(browser, many):
    browser.open(many)
    count = "document.getElementById('curves-plot').data.length"
    ticked = "document.querySelectorAll('#legend input[data-curve]:checked').length"
    for script, shown in (
        ("document.getElementById('show-none').click()", 0),
        ("document.querySelector('#legend input[data-group]').click()", 6),
        ("document.querySelector('#legend input[data-curve]').click()", 5),
        ("document.getElementById('show-all').click()", 18),
    ):
        browser.do(script)
        browser.wait(f"{count} === {shown}")
        assert browser.do(ticked) == shown
    label = "document.querySelectorAll('#legend label:not(.head)')[7]"
    browser.do(f"{label}.dispatchEvent(new Event('mouseenter'))")
    browser.wait("document.getElementById('curves-plot').data[7].opacity === 1")
    faded = "document.getElementById('curves-plot').data.filter(t => t.opacity < 0.5).length"
    assert browser.do(faded) == 17
    assert browser.problems == []


def test_the_last_tick_is_the_end_of_the_curves(browser, many):
    for width in (1280, 390):
        browser.open(many, width=width)
        ticks = "[...document.querySelectorAll('#curves-plot .xtick text')]"
        assert browser.do(f"{ticks}.at(-1).textContent") == "37"
        assert browser.do(f"{ticks}.at(-1).getBoundingClientRect().right") <= width
        assert len(browser.do(f"{ticks}.map(t => t.textContent)")) >= 3
    # within a part of the axis there are other ticks, and the button leads back
    browser.open(many)
    place = browser.do(
        "(r => [r.x, r.y, r.width, r.height])"
        "(document.querySelector('#curves-plot .nsewdrag').getBoundingClientRect())"
    )
    left, top, wide, high = place
    browser.drag((left + 0.1 * wide, top + high / 2), (left + 0.3 * wide, top + high / 2))
    browser.wait(f"{ticks}.length > 2 && {ticks}.every(t => Number(t.textContent) < 20)")
    browser.do("document.querySelector('#curves-plot [data-val=auto]').click()")
    browser.wait(f"{ticks}.at(-1).textContent === '37'")
    assert browser.problems == []


@pytest.mark.parametrize("seeds", ["mean", "single"])
def test_the_shown_curves_are_saved_as_csv(browser, many, tmp_path, seeds):
    browser.open(many)
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.do(f"document.querySelector('input[name=seeds][value={seeds}]').click()")
    browser.do("document.getElementById('show-none').click()")
    browser.do("document.querySelectorAll('#legend input[data-curve]')[1].click()")
    browser.do("document.getElementById('save-csv').click()")
    file = tmp_path / "curves-gap.csv"
    end = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    rows = list(csv.DictReader(file.open(newline="")))
    table = list(csv.DictReader((many.parent / "complete" / "metrics.csv").open(newline="")))
    kept = [row for row in table if row["algorithm"] == "gt"]
    assert {row["method"] for row in rows} == {"distributed GT (gt, lr 0.01)"}
    assert {row["directory"] for row in rows} == {"complete"}
    for name in ("iteration", "bytes", "gradients"):
        assert {row[name] for row in rows} == {row[name] for row in kept}
    gaps = {(row["seed"], row["iteration"]): float(row["gap"]) for row in kept}
    if seeds == "single":
        told = {(row["seed"], row["iteration"]): float(row["gap"]) for row in rows}
        assert told == pytest.approx(gaps, rel=1e-4)
    else:
        last = [gap for (_, iteration), gap in gaps.items() if iteration == "37"]
        told = [float(rows[-1][f"gap_{name}"]) for name in ("low", "mean", "high")]
        expected = [min(last), sum(last) / len(last), max(last)]
        assert told == pytest.approx(expected, rel=1e-4)
    assert browser.problems == []


def test_cells_of_the_csv_are_quoted_and_no_formulas(browser, many):
    browser.open(many)
    assert browser.do("cell('a,\"b')") == '"a,""b"'
    assert browser.do("cell('=1+1')") == "'=1+1"
    assert [browser.do(f"cell({value})") for value in ("-1.5", "null", "'gt'")] == [-1.5, "", "gt"]


def test_what_ran_is_folded_until_a_link_leads_there(browser, page):
    browser.open(page)
    order = browser.do("[...document.querySelectorAll('main > section')].map(s => s.id)")
    assert order[:3] == ["states", "curves", "summary"]
    assert order[-1] == "runs"
    assert browser.do("document.querySelector('#runs details').open") is False
    browser.do("document.querySelector('#states a').click()")
    browser.wait("document.querySelector('#runs details').open")
    assert browser.problems == []


def test_on_a_phone_the_gap_is_beside_the_method(browser, many):
    browser.open(many, width=390)
    for number, name in ((0, "method"), (1, "gap")):
        heading = f"document.querySelectorAll('#summary th')[{number}]"
        assert browser.do(f"{heading}.textContent") == name
        assert browser.do(f"{heading}.getBoundingClientRect().right") <= 390
    assert browser.do("document.querySelectorAll('#summary small')[17].offsetHeight") > 0
    caption = "document.querySelector('#summary caption').getBoundingClientRect()"
    assert browser.do(f"{caption}.right") <= 390


def test_the_summary_of_several_directories_fits_on_a_wide_page(browser, many):
    browser.open(many)
    wide = "document.querySelector('#summary .wide')"
    assert browser.do(f"{wide}.scrollWidth <= {wide}.clientWidth")
    assert browser.do("document.querySelectorAll('#summary small')[17].textContent") == "star"


def test_names_stand_below_their_directory_and_say_what_they_lack(browser, tmp_path):
    for name in ("a", "b"):
        methods = {"algorithms": "gt,dsgd", "iterations": 5, "out": str(tmp_path / name)}
        mpi_gt.run(stacked=True, n=3, **methods)
    with (tmp_path / "b" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "b" / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "gap": ""} for row in rows)
    target = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(target)]) == 0
    browser.open(target)
    labels = "[...document.querySelectorAll('#legend .group:first-child label')]"
    lefts, tops = (
        browser.do(f"{labels}.map(each => each.getBoundingClientRect().{side})")
        for side in ("left", "top")
    )
    assert len(lefts) == 3
    assert len(set(lefts)) == 1
    assert tops == sorted(set(tops))
    missing = "[...document.querySelectorAll('#legend .missing')].map(each => each.textContent)"
    assert len(browser.do(missing)) == 2
    browser.do("document.querySelector('input[name=metric][value=loss]').click()")
    browser.wait(f"{missing}.length === 0")
    assert browser.problems == []
