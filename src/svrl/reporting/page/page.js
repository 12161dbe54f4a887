// What the page can do beyond being read: each part is set up by one function, and none needs another.
"use strict";

const every = (selector, within = document) => [...within.querySelectorAll(selector)];
const byId = (name) => document.getElementById(name);

function setUpTheme() {
  const button = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} theme`);
  };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("svrl-theme", theme); } catch { /* the page works without memory */ }
    show();
  });
  dark.addEventListener("change", show);
  show();
}

function openClaim(claim, open) {
  claim.classList.toggle("open", open);
  claim.querySelector(".opener").setAttribute("aria-expanded", String(open));
}

function filterClaims(verdict) {
  const claims = every(".claim");
  claims.forEach((claim) => claim.classList.toggle("filtered", verdict !== "" && claim.dataset.verdict !== verdict));
  every(".filter").forEach((other) => other.setAttribute("aria-pressed", String(other.dataset.filter === verdict)));
  byId("none-left").hidden = claims.some((claim) => !claim.classList.contains("filtered"));
}

function setUpClaims() {
  every(".claim").forEach((claim) => {
    claim.querySelector(".opener").addEventListener("click", () => openClaim(claim, !claim.classList.contains("open")));
  });
  every(".filter").forEach((button) => {
    button.addEventListener("click", () => {
      filterClaims(button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.filter);
    });
  });
  const follow = () => {
    const claim = location.hash.startsWith("#claim-") && byId(decodeURIComponent(location.hash.slice(1)));
    if (!claim || !claim.classList.contains("claim")) return;
    if (claim.classList.contains("filtered")) filterClaims("");
    openClaim(claim, true);
    claim.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", follow);
  follow();
}

function setUpSorting() {
  const table = byId("claims-table");
  const first = every(".claim", table);
  const key = (claim, column) => {
    const cell = claim.querySelector(`td[data-column="${column}"]`);
    return cell.dataset.key ?? cell.textContent.trim();
  };
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  every("thead th", table).forEach((head) => {
    head.querySelector("button").addEventListener("click", () => {
      // Up, down, and back to the order of the paper.
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      every("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
      const sorted = [...first];
      if (order) {
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const column = head.dataset.column;
        sorted.sort((one, other) => sign * compare(key(one, column), key(other, column)));
      }
      table.append(...sorted);
    });
  });
}

function setUpTabs() {
  every("[role=tablist]").forEach((list) => {
    const tabs = every("[role=tab]", list);
    const select = (chosen) => tabs.forEach((tab) => {
      const here = tab === chosen;
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).classList.toggle("unselected", !here);
    });
    tabs.forEach((tab, at) => {
      tab.addEventListener("click", () => select(tab));
      tab.addEventListener("keydown", (event) => {
        const places = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
        if (!(event.key in places)) return;
        event.preventDefault();
        const next = tabs[(places[event.key] + tabs.length) % tabs.length];
        select(next);
        next.focus();
      });
    });
  });
}

function setUpToggles() {
  every(".toggle").forEach((button) => {
    const parts = every(`svg [data-series="${button.dataset.toggle}"]`, button.closest("figure"));
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      parts.forEach((part) => part.classList.toggle("off", !shown));
    });
  });
}

function setUpCopying() {
  every(".copy").forEach((button) => {
    const code = button.parentElement.querySelector("code");
    const select = () => getSelection().selectAllChildren(code);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        select(); // pages from disk may not write to the clipboard everywhere
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
  });
}

function setUpViewer() {
  const viewer = byId("viewer");
  const stage = byId("stage");
  const sheet = byId("sheet");
  const fingers = new Map();
  let home = null;
  let view = { x: 0, y: 0, k: 1 };

  const paint = () => {
    sheet.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.k})`;
    byId("zoom-level").value = `${Math.round(100 * view.k)}%`;
  };
  const fit = () => {
    const [, , width, height] = sheet.querySelector("svg").getAttribute("viewBox").split(/\s+/).map(Number);
    const scale = Math.min((stage.clientWidth - 24) / width, (stage.clientHeight - 24) / height);
    sheet.style.width = `${width * scale}px`;
    sheet.style.height = `${height * scale}px`;
    view = { x: (stage.clientWidth - width * scale) / 2, y: (stage.clientHeight - height * scale) / 2, k: 1 };
    paint();
  };
  const move = (x, y) => {
    view = { ...view, x: view.x + x, y: view.y + y };
    paint();
  };
  // The point (x, y) of the stage stays where it is.
  const zoom = (factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) => {
    const k = Math.min(40, Math.max(0.5, view.k * factor));
    view = { x: x - (x - view.x) * (k / view.k), y: y - (y - view.y) * (k / view.k), k };
    paint();
  };
  const open = (picture) => {
    home = picture;
    picture.style.minHeight = `${picture.offsetHeight}px`;
    byId("viewer-title").textContent = picture.dataset.title;
    sheet.append(picture.querySelector("svg"));
    viewer.showModal();
    stage.focus();
    fit();
  };
  viewer.addEventListener("close", () => {
    home.append(sheet.querySelector("svg"));
    home.style.minHeight = "";
    fingers.clear();
    home.closest("figure").querySelector(".enlarge").focus({ preventScroll: true });
  });

  every(".picture").forEach((picture) => picture.addEventListener("click", () => open(picture)));
  every(".enlarge").forEach((button) => {
    button.addEventListener("click", () => open(button.closest("figure").querySelector(".picture")));
  });
  byId("zoom-in").addEventListener("click", () => zoom(1.4));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  byId("zoom-fit").addEventListener("click", fit);
  byId("zoom-close").addEventListener("click", () => viewer.close());
  addEventListener("resize", () => { if (viewer.open) fit(); });
  setUpViewerInput(stage, fingers, { move, zoom, fit });
}

function setUpViewerInput(stage, fingers, { move, zoom, fit }) {
  const place = (event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [one, other] = [...fingers.values()];
    return { far: Math.hypot(one.x - other.x, one.y - other.y), x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
  };
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = place(event);
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018) * (event.ctrlKey ? 4 : 1)), x, y);
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    stage.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place(event));
    stage.classList.add("dragging");
  });
  stage.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = place(event);
    const was = fingers.size === 2 ? spread() : null;
    fingers.set(event.pointerId, now);
    if (!was) return move(now.x - before.x, now.y - before.y);
    const is = spread();
    move(is.x - was.x, is.y - was.y);
    if (was.far > 0) zoom(is.far / was.far, is.x, is.y);
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    if (fingers.size === 0) stage.classList.remove("dragging");
  };
  stage.addEventListener("pointerup", lift);
  stage.addEventListener("pointercancel", lift);
  stage.addEventListener("dblclick", fit);
  const keys = {
    "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit,
    ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
  };
  stage.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}

function setUpPrinting() {
  matchMedia("print").addEventListener("change", ({ matches }) => {
    every("details").forEach((part) => {
      if (matches) part.dataset.before = String(part.open);
      part.open = matches || part.dataset.before === "true";
    });
  });
}

setUpTheme();
setUpClaims();
setUpSorting();
setUpTabs();
setUpToggles();
setUpCopying();
setUpViewer();
setUpPrinting();
