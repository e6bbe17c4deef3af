// The page of `mpi-gt watch --web`: sections and data come from the server, whenever they change.
const known = new Map(); // the sections as they were received

// what the reader has opened, sorted and chosen in a section
function noteState(section) {
  const focusable = [...section.querySelectorAll("button, input, summary, a")];
  return {
    open: [...section.querySelectorAll("details")].map((each) => each.open),
    sorted: [...section.querySelectorAll("th")].map((each) => each.getAttribute("aria-sort")),
    checked: [...section.querySelectorAll("input:checked")].map((each) => [each.name, each.value]),
    focus: focusable.indexOf(document.activeElement),
  };
}

function restoreState(section, state) {
  section.querySelectorAll("details").forEach((each, k) => (each.open = state.open[k] ?? each.open));
  section.querySelectorAll("th").forEach((heading, k) => {
    if (state.sorted[k]) sortBy(heading.closest("table"), heading, state.sorted[k] === "ascending");
  });
  for (const input of section.querySelectorAll('input[type="radio"]')) {
    if (state.checked.some(([name, value]) => name === input.name && value === input.value)) input.checked = true;
  }
  if (state.focus >= 0) section.querySelectorAll("button, input, summary, a")[state.focus]?.focus({ preventScroll: true });
}

function replaceSection(id, html) {
  const main = document.querySelector("main");
  const before = document.getElementById(id);
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const made = holder.content.firstElementChild;
  if (before) {
    const state = noteState(before);
    before.querySelectorAll(".plot").forEach((plot) => Plotly.purge(plot));
    before.replaceWith(made);
    makeSortable(made);
    restoreState(made, state);
  } else {
    main.append(made);
    makeSortable(made);
  }
}

function receive(told) {
  page = told.page;
  const ids = told.sections.map(([id]) => id);
  for (const id of known.keys()) {
    if (!ids.includes(id)) {
      document.getElementById(id).remove();
      known.delete(id);
    }
  }
  const changed = told.sections.filter(([id, html]) => known.get(id) !== html);
  for (const [id, html] of changed) {
    replaceSection(id, html);
    known.set(id, html);
  }
  ids.forEach((id) => {
    // in their order, without moving those that are in place
    const [place, each] = [ids.indexOf(id), document.getElementById(id)];
    const main = document.querySelector("main");
    if (main.children[place] !== each) main.insertBefore(each, main.children[place]);
  });
  if (changed.some(([id]) => id === "curves")) bindCurves();
  makeLegend();
  tick();
  const near = (id) => document.getElementById(id)?.closest("section")?.id;
  const redrawn = Object.entries(page.figures).filter(([id]) => changed.some(([each]) => each === near(id)));
  return Promise.all([...redrawn.map(([id, figure]) => draw(id, figure)), drawCurves()]);
}

function say(live, text) {
  document.getElementById("note").textContent = text;
  document.body.dataset.live = live;
}

const clock = () => new Date().toLocaleTimeString();
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// Each request waits at the server until there is something new: no timer, which browsers slow down
// in tabs that nobody looks at.
async function follow() {
  let have = 0;
  let failed = 0;
  for (;;) {
    try {
      const answer = await fetch(`data?have=${have}`, { cache: "no-store" });
      if (answer.status === 403) return say("lost", `${document.body.dataset.said ?? ""} · this view is over: mpi-gt watch has a new address`);
      if (answer.status === 200) {
        const told = await answer.json();
        await receive(told);
        have = told.version;
        document.title = told.title;
        document.body.dataset.said = `${told.said} · ${clock()}`;
        say(told.state, document.body.dataset.said);
        document.body.dataset.drawn = "yes";
        if (told.state !== "live") return;
      } else if (!answer.ok) {
        throw new Error(answer.status);
      }
      failed = 0;
    } catch {
      failed += 1;
      say("lost", `${document.body.dataset.said ?? ""} · no answer since; this is the last state`);
      await pause(Math.min(30, 2 ** failed));
    }
  }
}
