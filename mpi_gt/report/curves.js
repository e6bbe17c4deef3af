// The curves: colour by method, line by directory. Beyond the number of colours and dashes, signs
// on the lines tell them apart.
const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#c0508f", "#d09000", "#333333", "#6a3d9a", "#3fa9e0", "#8c510a", "#8a9a00"],
  dark: ["#4da3e0", "#ff8a4c", "#3ccf9f", "#f29ccb", "#ffc145", "#eeeeee", "#b99aec", "#a6e3ff", "#c99a66", "#c8d048"],
};
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const GAPS = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3" };
const SYMBOLS = ["", "circle", "square", "diamond", "triangle-up", "x", "star"];
const SIGNS = { circle: "●○", square: "■□", diamond: "◆◇", "triangle-up": "▲△", x: "✖✕", star: "★☆", hexagon: "⬢⬡" };
const SAMPLE = 40; // pixels
const hidden = new Set(); // keys of curves
let zoomed = ""; // the choice of axes whose x axis the reader has changed
let listed = ""; // the curves in the legend

const SVG = "http://www.w3.org/2000/svg";
const key = (curve) => JSON.stringify([curve.where, curve.algorithm]);
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
const shownCurves = () => page.curves.filter((curve) => !hidden.has(key(curve)));
const places = () => new Set(page.curves.map((curve) => curve.directory)).size;
const label = (curve) => (places() > 1 ? `${curve.name} · ${curve.where}` : curve.name);

function look(curve) {
  const colours = COLOURS[dark.matches ? "dark" : "light"];
  const again = Math.floor(curve.method / colours.length);
  const symbol = SYMBOLS[curve.directory % SYMBOLS.length] || (again ? "hexagon" : "");
  return {
    colour: colours[curve.method % colours.length],
    dash: DASHES[curve.directory % DASHES.length],
    symbol,
    open: again % 2 === 1,
  };
}

function line(curve, width) {
  const { colour, dash, symbol, open } = look(curve);
  const drawn = { type: "scatter", mode: "lines", line: { color: colour, dash, width } };
  if (!symbol) return drawn;
  // signs at a few points only, at other ones for each method
  const marker = { symbol: symbol + (open ? "-open" : ""), size: 8, color: colour, maxdisplayed: 9 + (curve.method % 4) };
  return { ...drawn, mode: "lines+markers", marker };
}

function band(curve, values, x) {
  const edge = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip", showlegend: false, meta: key(curve) };
  const fill = { fill: "tonexty", fillcolor: look(curve).colour + "2e" };
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

// round numbers and, as the last tick, the end of the curves
function ticksTo(end, width) {
  const most = Math.max(2, Math.min(8, Math.floor(width / 110)));
  const power = 10 ** Math.floor(Math.log10(end / most));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((each) => end / each <= most);
  const ticks = [];
  for (let place = 0; place < end - 0.6 * step; place += step) ticks.push(Number(place.toPrecision(12)));
  return [...ticks, end];
}

function acrossAxis(across, data, revision) {
  const title = { text: page.across[across], standoff: 10 };
  const ends = data.flatMap((trace) => trace.x.filter((value) => value !== null));
  const end = ends.reduce((a, b) => Math.max(a, b), 0);
  const plot = document.getElementById("curves-plot");
  if (!(end > 0)) return { title, automargin: true };
  if (zoomed === revision) return { title, automargin: true, range: plot.layout.xaxis.range };
  const tickvals = ticksTo(end, plot.clientWidth);
  return { title, automargin: true, range: [0, end], tickmode: "array", tickvals };
}

function upAxis(metric, scale, data) {
  const title = { text: page.metrics[metric], standoff: 14 };
  if (scale !== "log") return { title, automargin: true, type: "linear" };
  const logs = data.flatMap((trace) => trace.y.filter((value) => value > 0)).map(Math.log10);
  const [low, high] = logs.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  // over several decades, powers of ten alone
  const ticks = high - low > 3 ? { dtick: Math.ceil((high - low) / 8) } : {};
  return { title, automargin: true, type: "log", exponentformat: "power", ...ticks };
}

function curvesFigure() {
  const [metric, across, scale, seeds] = ["metric", "across", "scale", "seeds"].map(chosen);
  const data = [];
  const shown = shownCurves().filter((curve) => curve.metrics[metric]);
  // ranges below all means
  if (seeds === "range") {
    for (const curve of shown.filter((each) => each.seeds.length > 1)) {
      data.push(...band(curve, curve.metrics[metric], curve.across[across]));
    }
  }
  for (const curve of shown) {
    const values = curve.metrics[metric];
    const points = seeds === "single" ? single(curve, values, curve.single[across]) : { x: curve.across[across], y: values.mean };
    const named = { name: plain(label(curve)), meta: key(curve), connectgaps: false };
    data.push({ ...line(curve, seeds === "single" ? 1 : 2), ...named, ...points });
  }
  const revision = [metric, across, scale].join();
  const layout = {
    xaxis: acrossAxis(across, data, revision),
    yaxis: upAxis(metric, scale, data),
    margin: { l: 50, r: 34, t: 30, b: 45 }, // on the right: half of the last number
    showlegend: false,
    hovermode: "closest",
    uirevision: revision, // what the reader has zoomed into stays when points are added
  };
  return { data, layout, back: "autoScale2d" }; // the range at first is too short after an update
}

async function drawCurves() {
  const plot = document.getElementById("curves-plot");
  if (!plot) return;
  await draw("curves-plot", curvesFigure());
  fillSamples();
  markMissing();
  if (plot.dataset.bound) return;
  plot.dataset.bound = "yes";
  plot.on("plotly_relayout", (changed) => {
    if (!Object.keys(changed).some((name) => name.startsWith("xaxis.range") || name === "xaxis.autorange")) return;
    const back = changed["xaxis.autorange"];
    zoomed = back ? "" : plot.layout.uirevision;
    if (back || plot.layout.xaxis.tickmode === "array") drawCurves();
  });
}

// a piece of the line, for the legend and the summary
function makeSample(curve) {
  const { colour, dash, symbol, open } = look(curve);
  const make = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    return made;
  };
  const drawn = make("svg", { width: SAMPLE, height: 14, "aria-hidden": "true" });
  drawn.append(make("line", { x1: 0, y1: 7, x2: SAMPLE, y2: 7, stroke: colour, "stroke-width": 3, "stroke-dasharray": GAPS[dash] }));
  if (symbol) {
    const sign = make("text", { x: SAMPLE / 2, y: 7, fill: colour, "text-anchor": "middle", "dominant-baseline": "central", "font-size": 13 });
    sign.textContent = SIGNS[symbol][open ? 1 : 0];
    drawn.append(sign);
  }
  return drawn;
}

function fillSamples() {
  document.querySelectorAll(".sample").forEach((place) => {
    const curve = page.curves[place.dataset.curve];
    if (curve) place.replaceChildren(makeSample(curve));
  });
}

// the legend says which curves lack the chosen metric: their boxes are ticked, yet nothing is drawn
function markMissing() {
  const metric = chosen("metric");
  document.querySelectorAll("#legend input[data-curve]").forEach((input) => {
    input.closest("label").classList.toggle("missing", !page.curves[input.dataset.curve].metrics[metric]);
  });
}

// others fade while one is pointed at in the legend
function stress(curve) {
  const plot = document.getElementById("curves-plot");
  const strength = plot.data.map((trace) => (!curve || trace.meta === key(curve) ? 1 : 0.12));
  if (strength.length) Plotly.restyle(plot, { opacity: strength });
}

function show(curves, visible) {
  for (const curve of curves) visible ? hidden.delete(key(curve)) : hidden.add(key(curve));
  tick();
  return drawCurves();
}

// the boxes of the legend say which curves are shown
function tick() {
  document.querySelectorAll("#legend input[data-curve]").forEach((input) => {
    input.checked = !hidden.has(key(page.curves[input.dataset.curve]));
  });
  document.querySelectorAll("#legend .group").forEach((group) => {
    const boxes = [...group.querySelectorAll("input[data-curve]")];
    const head = group.querySelector("input[data-group]");
    if (!head) return;
    head.checked = boxes.every((box) => box.checked);
    head.indeterminate = !head.checked && boxes.some((box) => box.checked);
  });
}

function entry(number, text) {
  const curve = () => page.curves[number];
  const input = element("input", { type: "checkbox", "data-curve": number });
  input.addEventListener("change", () => show([curve()], input.checked));
  const made = element("label", {}, input, element("span", { class: "sample", "data-curve": number }), element("span", {}, text));
  made.addEventListener("mouseenter", () => stress(curve()));
  made.addEventListener("focusin", () => input.matches(":focus-visible") && stress(curve()));
  for (const name of ["mouseleave", "focusout"]) made.addEventListener(name, () => stress(null));
  return made;
}

// the legend: one checkbox per curve, so that the keyboard reaches it; grouped by directory
function makeLegend() {
  const box = document.getElementById("legend");
  if (!box) return;
  const now = JSON.stringify(page.curves.map((curve) => [key(curve), curve.name]));
  if (now === listed && box.childElementCount) return;
  listed = now;
  const groups = new Map();
  page.curves.forEach((curve, number) => {
    groups.set(curve.where, [...(groups.get(curve.where) ?? []), number]);
  });
  const flat = groups.size === 1 || groups.size === page.curves.length;
  box.className = flat ? "flat" : "grouped";
  box.replaceChildren();
  if (flat) {
    box.append(element("div", { class: "group" }, ...page.curves.map((curve, number) => entry(number, label(curve)))));
  } else {
    for (const [where, numbers] of groups) {
      const head = element("input", { type: "checkbox", "data-group": "yes" });
      head.addEventListener("change", () => show(numbers.map((number) => page.curves[number]), head.checked));
      const entries = numbers.map((number) => entry(number, page.curves[number].name));
      const heading = element("label", { class: "head" }, head, element("b", {}, where));
      box.append(element("div", { class: "group", role: "group", "aria-label": where }, heading, ...entries));
    }
  }
  tick();
}

// a text that a spreadsheet would take for a formula gets an apostrophe
function cell(value) {
  if (typeof value !== "string") return value ?? "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

// the shown curves as CSV: every x axis, and the chosen metric
function csvOfShown() {
  const [metric, seeds] = ["metric", "seeds"].map(chosen);
  const axes = Object.keys(page.across);
  const each = seeds === "single";
  const values = each ? [metric] : ["mean", "low", "high"].map((name) => `${metric}_${name}`);
  const rows = [["directory", "method", "algorithm", ...(each ? ["seed"] : []), ...axes, ...values]];
  for (const curve of shownCurves()) {
    const measured = curve.metrics[metric];
    if (!measured) continue;
    const own = [curve.where, curve.name, curve.algorithm];
    const across = each ? curve.single : curve.across;
    const places = across.iteration.map((_, k) => axes.map((name) => across[name][k]));
    if (each) {
      measured.seeds.forEach((row, s) => {
        row.forEach((value, k) => rows.push([...own, curve.seeds[s], ...places[k], value]));
      });
    } else {
      places.forEach((place, k) => rows.push([...own, ...place, measured.mean[k], measured.low[k], measured.high[k]]));
    }
  }
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function saveCsv() {
  const address = URL.createObjectURL(new Blob([csvOfShown()], { type: "text/csv" }));
  element("a", { href: address, download: `curves-${chosen("metric")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function bindCurves() {
  const section = document.getElementById("curves");
  zoomed = ""; // the plot is a new one
  section.querySelectorAll(".switches input").forEach((input) => input.addEventListener("change", drawCurves));
  if (!document.getElementById("legend")) return;
  document.getElementById("show-all").addEventListener("click", () => show(page.curves, true));
  document.getElementById("show-none").addEventListener("click", () => show(page.curves, false));
  document.getElementById("save-csv").addEventListener("click", saveCsv);
  makeLegend();
}
