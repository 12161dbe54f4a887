// What the page can do beyond being read: filter claims, open the one that a link leads to, copy commands, print all.
"use strict";

const every = (selector, within = document) => [...within.querySelectorAll(selector)];

function filterClaims(verdict) {
  every(".claim").forEach((claim) => { claim.hidden = verdict !== "" && claim.dataset.verdict !== verdict; });
  every(".filter").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.filter === verdict)));
}

function follow() {
  const claim = location.hash.startsWith("#claim-") && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!claim || !claim.classList.contains("claim")) return;
  if (claim.hidden) filterClaims("");
  claim.querySelector("details").open = true;
  claim.scrollIntoView({ block: "center" });
}

every(".filters, .copy").forEach((part) => { part.hidden = false; });
every(".filter").forEach((button) => button.addEventListener("click", () => {
  filterClaims(button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.filter);
}));
addEventListener("hashchange", follow);
follow();

every(".copy").forEach((button) => button.addEventListener("click", async () => {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code); // pages from disk may not write to the clipboard everywhere
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
}));

matchMedia("print").addEventListener("change", ({ matches }) => every("details").forEach((part) => {
  if (matches) part.dataset.before = String(part.open);
  part.open = matches || part.dataset.before === "true";
}));
