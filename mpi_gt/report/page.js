"use strict";
let page = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");

// plotly interprets some markup in its texts; names from files are plain text
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...content);
  return made;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), linecolor: of("--soft") };
  return {
    layout: {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: of("--ink"), size: 13 }, xaxis: axis, yaxis: axis,
      hoverlabel: { bgcolor: of("--card"), font: { color: of("--ink") }, namelength: -1 },
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
  const buttons = [["toImage", "zoom2d", "pan2d", figure.back ?? "resetScale2d"]];
  const config = { responsive: true, displaylogo: false, modeBarButtons: buttons, doubleClick: figure.back ? "autosize" : "reset+autosize" };
  return Plotly.react(document.getElementById(id), figure.data, layout, config);
}

function drawAll() {
  const drawn = Object.entries(page.figures).map(([id, figure]) => draw(id, figure));
  return Promise.all([...drawn, drawCurves()]);
}
