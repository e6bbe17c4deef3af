"use strict";
const page = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999", "#e08214"];
const DASHES = ["solid", "dash", "dot", "dashdot"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const hidden = new Set();

const colour = (number) => COLOURS[number % COLOURS.length];
// lines that coincide differ in their dashes
const dash = (number) => DASHES[(number + Math.floor(number / COLOURS.length)) % DASHES.length];
// plotly interprets some markup in its texts; names from files are plain text
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), linecolor: of("--soft") };
  return {
    layout: {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: of("--ink"), size: 13 }, xaxis: axis, yaxis: axis,
      hoverlabel: { bgcolor: of("--card"), font: { color: of("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: of("--soft"), activecolor: of("--accent") },
    },
  };
}

function draw(id, figure) {
  const layout = {
    margin: { l: 50, r: 10, t: 30, b: 45 },
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" },
    ...figure.layout,
    template: theme(),
  };
  const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
  const config = { responsive: true, displaylogo: false, modeBarButtons: buttons };
  return Plotly.react(document.getElementById(id), figure.data, layout, config);
}

function band(curve, values, number, x) {
  const edge = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const fill = { fill: "tonexty", fillcolor: colour(number) + "33" };
  return [{ ...edge, y: values.low }, { ...edge, y: values.high, ...fill }];
}

// one trace for all seeds, with a gap after each
function single(curve, values, x) {
  return {
    x: values.seeds.flatMap(() => [...x, null]),
    y: values.seeds.flatMap((row) => [...row, null]),
    customdata: curve.seeds.flatMap((seed) => [...x.map(() => seed), null]),
    hovertemplate: "%{x}: %{y}, seed %{customdata}",
  };
}

function curvesFigure() {
  const [metric, across, scale, seeds] = ["metric", "across", "scale", "seeds"].map(chosen);
  const data = [];
  page.curves.forEach((curve, number) => {
    const values = curve.metrics[metric];
    if (!values || hidden.has(number)) return;
    const look = { type: "scatter", mode: "lines", name: plain(curve.label), connectgaps: false };
    const line = { color: colour(number), dash: dash(number), width: seeds === "mean" ? 2 : 1 };
    if (seeds === "single") {
      data.push({ ...look, line, ...single(curve, values, curve.single[across]) });
    } else {
      const x = curve.across[across];
      if (curve.seeds.length > 1) data.push(...band(curve, values, number, x));
      data.push({ ...look, line, x, y: values.mean });
    }
  });
  const up = scale === "log" ? { type: "log", exponentformat: "power" } : { type: "linear" };
  const layout = {
    xaxis: { title: { text: page.across[across] }, automargin: true },
    yaxis: { title: { text: page.metrics[metric], standoff: 14 }, automargin: true, ...up },
    showlegend: false,
  };
  return { data, layout };
}

function drawAll() {
  const drawn = Object.entries(page.figures).map(([id, figure]) => draw(id, figure));
  if (page.curves.length) drawn.push(draw("curves-plot", curvesFigure()));
  return Promise.all(drawn);
}

// the legend: one checkbox per curve, so that the keyboard reaches it
function makeLegend() {
  const box = document.getElementById("shown");
  page.curves.forEach((curve, number) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "checkbox";
    input.checked = true;
    input.addEventListener("change", () => {
      input.checked ? hidden.delete(number) : hidden.add(number);
      draw("curves-plot", curvesFigure());
    });
    const sample = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const stroke = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const gaps = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" }[dash(number)];
    const looks = { x1: 0, y1: 6, x2: 26, y2: 6, stroke: colour(number), "stroke-width": 3, "stroke-dasharray": gaps };
    Object.entries(looks).forEach(([name, value]) => stroke.setAttribute(name, value));
    sample.setAttribute("width", 26);
    sample.setAttribute("height", 12);
    sample.append(stroke);
    const name = document.createElement("span");
    name.textContent = curve.label;
    label.append(input, sample, name);
    box.append(label);
  });
}

function sortBy(table, heading) {
  const column = [...heading.parentNode.children].indexOf(heading);
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
  const compare = (a, b) => {
    const [x, y] = [Number(key(a)), Number(key(b))];
    // cells that are not numbers come last in both orders
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
    return (up ? 1 : -1) * (isNaN(x) ? key(a).localeCompare(key(b)) : x - y);
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

document.querySelectorAll("table.sortable").forEach((table) => {
  table.querySelectorAll("thead button").forEach((button) => {
    button.addEventListener("click", () => sortBy(table, button.closest("th")));
  });
});
document.querySelectorAll(".switches input").forEach((input) => {
  input.addEventListener("change", () => draw("curves-plot", curvesFigure()));
});
dark.addEventListener("change", drawAll);
if (page.curves.length) makeLegend();
drawAll().then(() => document.body.setAttribute("data-drawn", "yes"));
