// The page: asks how the sweep stands, and changes what has changed. All texts are set as text, never as markup.
const EVERY = 2000;
const MARKS = { done: "\u2713", running: "\u25b6", failed: "\u2717", stopped: "\u2016", waiting: "\u00b7" };
const FIRST = ["running", "failed", "stopped", "waiting", "done"];
const MOST = { scores: 24, runs: 60 };
const byId = (name) => document.getElementById(name);
const now = {
  status: null, curves: null, etag: "", curvesEtag: "", subject: "", state: "", all: new Set(), hidden: new Set(), pointer: null,
};

function made(name, type, ...inside) {
  const element = document.createElement(name);
  if (type) element.className = type;
  element.append(...inside);
  return element;
}

// Untouched if it says so already, so that selections and what is open stay.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// One element for every item, made once, moved only if the order changes.
function keep(parent, items, key, make, update) {
  const there = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, at) => {
    const name = key(item);
    let child = there.get(name);
    there.delete(name);
    if (!child) { child = make(item); child.dataset.key = name; }
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] || null);
    update(child, item);
  });
  there.forEach((child) => child.remove());
}

const score = (value) => {
  if (value === null) return "\u2013";
  const name = now.status.measure.name;
  if (name === "human_normalised") return `${(100 * value).toFixed(1)}%`;
  return name === "policy_loss_relative" ? `${Number((100 * value).toPrecision(3))}%` : String(Number(value.toPrecision(4)));
};

function duration(seconds) {
  if (seconds === null) return "\u2013";
  const minutes = Math.round(seconds / 60);
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (minutes < 100) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.round(minutes / 1440)} days`;
}

function showTotals() {
  const { totals, code } = now.status;
  const states = Object.keys(totals.states);
  say(byId("code"), code);
  const used = states.filter((state) => totals.states[state]);
  keep(byId("bar"), used, (state) => state, (state) => made("span", state), (part, state) => {
    part.style.flexGrow = String(totals.states[state]);
    part.title = `${totals.states[state]} ${state}`;
  });
  byId("bar").setAttribute("aria-label", used.map((state) => `${totals.states[state]} ${state}`).join(", "));
  const chip = (state) => {
    const button = made("button", state, made("span", "mark", MARKS[state]), " ", made("b"), ` ${state}`);
    button.type = "button";
    button.addEventListener("click", () => { now.state = now.state === state ? "" : state; showTotals(); showRuns(); });
    return button;
  };
  keep(byId("chips"), states, (state) => state, chip, (button, state) => {
    say(button.querySelector("b"), String(totals.states[state]));
    button.setAttribute("aria-pressed", String(now.state === state));
  });
  const facts = [
    ["finished", `${totals.states.done} of ${totals.runs}`, "runs"],
    ["steps", short(totals.steps), totals.steps_in_all === null ? "" : `of ${short(totals.steps_in_all)}`],
    ["speed", totals.steps_per_second === null ? "\u2013" : short(totals.steps_per_second), "steps/s of all running"],
    ["time left", duration(totals.eta_seconds), totals.eta_seconds === null ? "" : "if it goes on like this"],
    ["best so far", totals.best ? score(totals.best.score) : "\u2013", totals.best ? totals.best.label : now.status.measure.reason],
  ];
  // Plans say nothing of their steps before their end.
  const told = facts.filter(([name]) => totals.steps_in_all !== null || !["steps", "speed"].includes(name));
  const fact = () => made("div", "", made("dt"), made("dd", "", made("span"), made("small")));
  keep(byId("facts"), told, ([name]) => name, fact, (part, [name, value, more]) => {
    say(part.querySelector("dt"), name);
    say(part.querySelector("span"), value);
    say(part.querySelector("small"), more);
  });
}

function unfold(which, total, show) {
  const button = byId(`more-${which}`);
  button.hidden = total <= MOST[which];
  say(button, now.all.has(which) ? "Show fewer" : `and ${total - MOST[which]} more`);
  button.onclick = () => { now.all.has(which) ? now.all.delete(which) : now.all.add(which); show(); };
}

function showScores() {
  const { variants, groups, measure } = now.status;
  const together = variants.filter((group) => group.subjects_scored > 1);
  const rows = groups.filter((group) => group.scored);
  byId("scores-part").hidden = !rows.length;
  const shown = [...together, ...(now.all.has("scores") ? rows : rows.slice(0, MOST.scores))];
  const row = (group) => {
    const line = made("tr", group.subject === null ? "all" : "", ...["", "", "number", "number", "number", "number"].map((type) => made("td", type)));
    if (group.subject !== null) {
      const button = made("button", "", group.subject);
      button.type = "button";
      button.addEventListener("click", () => { choose(group.subject); byId("curves-part").scrollIntoView({ block: "start" }); });
      line.cells[0].append(button);
    }
    [3, 4].forEach((at) => line.cells[at].append(made("span"), " ", made("small")));
    return line;
  };
  keep(byId("scores"), shown, (group) => `${group.subject ?? ""}\n${group.variant}`, row, (line, group) => {
    if (group.subject === null) say(line.cells[0], `all (${group.subjects_scored} of ${group.subjects})`);
    say(line.cells[1], group.variant);
    say(line.cells[2], `${group.done}/${group.runs}`);
    ["iqm", "mean"].forEach((name, at) => {
      const [low, high] = [group[`${name}_low`], group[`${name}_high`]];
      say(line.cells[3 + at].querySelector("span"), (group.provisional ? "~" : "") + score(group[name]));
      say(line.cells[3 + at].querySelector("small"), low === null ? "" : `[${score(low)}, ${score(high)}]`);
    });
    say(line.cells[5], score(group.best));
  });
  unfold("scores", rows.length, showScores);
  const notes = [`${measure.text[0].toUpperCase()}${measure.text.slice(1)}, with 95% intervals over seeds.`];
  if (new Set(together.map((group) => group.subjects_scored)).size > 1) notes.push("Arms that have come to different subjects do not compare yet.");
  if (rows.some((group) => group.provisional)) notes.push("~ is of runs under way.");
  if (measure.reason) notes.push(`There is no number over all: ${measure.reason}.`);
  say(byId("scores-note"), notes.join(" "));
}

function newRun() {
  const details = made("details", "", made("summary"), made("pre"));
  return made("li", "",
    made("span", "badge", made("span", "mark"), " ", made("span", "state")),
    made("div", "what", made("span", "label"), made("span", "said")),
    made("div", "steps"), made("span", "pace"), made("span", "left"), made("span", "score"), details);
}

function showRun(line, run) {
  const part = (type) => line.querySelector(`.${type}`);
  line.dataset.state = run.state;
  part("badge").className = `badge ${run.state}`;
  say(part("mark"), MARKS[run.state]);
  say(part("state"), run.state);
  say(part("label"), run.label);
  const failed = run.state === "failed";
  say(part("said"), failed ? "" : run.reason);
  const details = line.querySelector("details");
  details.hidden = !failed;
  say(details.firstChild, run.reason || "it did not say why");
  say(details.lastChild, run.last_lines.join("\n") || "It printed nothing.");
  const bar = part("steps");
  if (run.steps_in_all && ["running", "stopped", "failed"].includes(run.state)) {
    if (!bar.firstChild) bar.append(made("progress"), made("small"));
    bar.className = `steps ${run.state}`;
    bar.firstChild.max = run.steps_in_all;
    bar.firstChild.value = run.steps;
    say(bar.lastChild, `${short(run.steps)} of ${short(run.steps_in_all)}`);
  } else {
    say(bar, run.state === "waiting" ? "" : run.steps ? short(run.steps) : "");
  }
  say(part("pace"), run.state === "running" && run.steps_per_second !== null ? `${short(run.steps_per_second)} steps/s` : "");
  say(part("left"), run.eta_seconds === null ? "" : `${duration(run.eta_seconds)} left`);
  say(part("score"), run.score === null ? "" : score(run.score));
}

function showRuns() {
  const runs = now.status.runs.filter((run) => !now.state || run.state === now.state);
  runs.sort((one, other) => FIRST.indexOf(one.state) - FIRST.indexOf(other.state));
  const shown = now.all.has("runs") ? runs : runs.slice(0, MOST.runs);
  keep(byId("runs"), shown, (run) => run.id, newRun, showRun);
  unfold("runs", runs.length, showRuns);
}

function showSubjects() {
  const subjects = [...new Set(now.status.runs.map((run) => run.subject).filter(Boolean))];
  const begun = now.status.runs.find((run) => run.state === "running") || now.status.runs.find((run) => run.steps) || now.status.runs[0];
  if (!subjects.includes(now.subject)) now.subject = begun ? begun.subject : "";
  keep(byId("subject"), subjects, (name) => name, (name) => made("option", "", name), (option, name) => { option.value = name; });
  byId("subject").value = now.subject;
  byId("curves-part").hidden = !now.subject;
}

function showCurves() {
  const chart = byId("chart"), curves = now.curves;
  const size = { width: chart.clientWidth, height: chart.clientHeight };
  if (!curves || !size.width) return;
  const colours = new Map(curves.variants.map((variant, at) => [variant.name, `c${at % 8}${at < 8 ? "" : " dashed"}`]));
  const toggle = (variant) => {
    const button = made("button", "", made("span", "", variant.name));
    button.type = "button";
    button.addEventListener("click", () => {
      now.hidden.has(variant.name) ? now.hidden.delete(variant.name) : now.hidden.add(variant.name);
      showCurves();
    });
    return button;
  };
  keep(byId("legend"), curves.variants, (variant) => variant.name, toggle, (button, variant) => {
    button.className = colours.get(variant.name);
    button.dataset.toggle = variant.name;
    button.setAttribute("aria-pressed", String(!now.hidden.has(variant.name)));
  });
  const span = extent(curves, now.hidden);
  say(byId("curves-note"), !curves.variants.length ? "No game has ended yet." : span
    ? "Thin lines are runs; a thick line is the mean over seeds, as far as all have got, and its band a 95% interval." : "All arms are hidden.");
  if (!span) { chart.replaceChildren(); return; }
  const scale = scales(size, span, curves.log);
  const picture = drawn("svg", { viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": `${curves.y} of ${curves.subject}` });
  picture.append(axes(curves, span, scale, size));
  const inside = drawn("g", { "clip-path": "url(#inside)" });
  curves.variants.forEach((variant) => inside.append(series(variant, colours.get(variant.name), scale, now.hidden.has(variant.name))));
  picture.append(frame(scale), inside);
  chart.replaceChildren(picture);
  if (now.pointer !== null) showTip(picture, span, scale, size, colours);
}

function showTip(picture, span, scale, size, colours) {
  const x = Math.min(Math.max(scale.back(now.pointer), span.left), span.right);
  const tip = made("div", "tip", made("p", "", made("b", "", `${short(x)} ${now.curves.x}`)));
  now.curves.variants.filter((variant) => !now.hidden.has(variant.name)).forEach((variant) => {
    const values = valueAt(variant.mean, x) || variant.runs.map((run) => valueAt(run.points, x)).filter(Boolean).flat();
    if (!values.length) return;
    const [mean, low, high] = values;
    const shown = variant.mean.length && valueAt(variant.mean, x) ? `${short(mean)} [${short(low)}, ${short(high)}]` : values.map(short).join(", ");
    tip.append(made("p", colours.get(variant.name), "\u25cf ", made("span", "", `${variant.name}: ${shown}`)));
  });
  const at = scale.x(x);
  picture.append(drawn("line", { class: "hair", x1: at, x2: at, y1: ROOM.top, y2: scale.bottom }));
  if (at < size.width / 2) tip.style.left = `${at + 12}px`;
  else tip.style.right = `${size.width - at + 12}px`;
  byId("chart").append(tip);
}

async function asked(address) {
  const answer = await fetch(address, { cache: "no-cache" });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return [await answer.json(), answer.headers.get("ETag")];
}

async function loadCurves() {
  if (!now.subject) return;
  const subject = now.subject;
  const [curves, etag] = await asked(`curves.json?subject=${encodeURIComponent(subject)}`);
  if (subject !== now.subject || etag === now.curvesEtag) return;
  [now.curves, now.curvesEtag] = [curves, etag];
  showCurves();
}

function choose(subject) {
  now.subject = subject;
  byId("subject").value = subject;
  loadCurves().catch(() => {});
}

async function refresh() {
  const live = byId("live");
  try {
    const [status, etag] = await asked("status.json");
    if (etag !== now.etag) {
      [now.status, now.etag] = [status, etag];
      showTotals(); showScores(); showRuns(); showSubjects();
    }
    await loadCurves();
    live.dataset.live = "on";
    const { done, failed } = status.totals.states;
    say(live, done + failed === status.totals.runs ? "all runs have ended" : "live");
    live.title = `as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    if (live.dataset.live !== "lost") say(live, `not connected since ${new Date().toLocaleTimeString()}`);
    live.dataset.live = "lost";
    live.title = String(error.message || error);
  }
}

async function keepUp() {
  if (!document.hidden) await refresh();
  setTimeout(keepUp, EVERY);
}

byId("subject").addEventListener("change", (event) => choose(event.target.value));
byId("chart").addEventListener("pointermove", (event) => {
  now.pointer = event.clientX - byId("chart").getBoundingClientRect().left;
  showCurves();
});
byId("chart").addEventListener("pointerleave", () => { now.pointer = null; showCurves(); });
byId("chart").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -12, ArrowRight: 12 }[event.key];
  if (!step) return;
  event.preventDefault();
  const width = byId("chart").clientWidth;
  now.pointer = Math.min(Math.max((now.pointer ?? width / 2) + step, ROOM.left), width - ROOM.right);
  showCurves();
});
byId("chart").addEventListener("blur", () => { now.pointer = null; showCurves(); });
new ResizeObserver(showCurves).observe(byId("chart"));
keepUp();
