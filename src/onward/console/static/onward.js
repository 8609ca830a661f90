// Everything works without this; it only keeps pages fresh and hands on the keyboard.
"use strict";

const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function spoken(seconds) {
  const far = Math.abs(seconds);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (far >= length) return ago.format(Math.trunc(seconds / length), unit);
  }
  return far < 5 ? "now" : ago.format(Math.trunc(seconds), "second");
}

// The server writes times in the zone of this browser; of some, the page shows how long ago they are.
function relativeTimes(root) {
  for (const one of root.querySelectorAll("time[data-ago]")) {
    const text = spoken((new Date(one.dateTime) - Date.now()) / 1000);
    if (one.textContent !== text) one.textContent = text;
  }
}

// -- parts of the page that the server sends anew

const FOCUSABLE = "a[href], button, summary, [tabindex]";

// Where the focus is in a part, so that it is there again when the part was made anew.
function placeOf(element, focused) {
  if (!element.contains(focused)) return null;
  const all = [...element.querySelectorAll(FOCUSABLE)];
  const href = focused.getAttribute("href");
  const same = all.filter((one) => one.getAttribute("href") === href);
  return { id: focused.id, href, which: same.indexOf(focused), at: all.indexOf(focused) };
}

function focusAt(element, { id, href, which, at }) {
  const all = [...element.querySelectorAll(FOCUSABLE)];
  const same = href === null ? [] : all.filter((one) => one.getAttribute("href") === href);
  const found = (id && element.querySelector(`#${CSS.escape(id)}`)) || same[which] || same[0] || all[Math.min(at, all.length - 1)];
  found?.focus({ preventScroll: true });
}


// A part that is fetched when it is opened or needed; until then it has a link to a page with the same.
async function load(inside, path) {
  inside.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(path, { headers: { accept: "text/html" } });
    if (!response.ok || response.redirected) return false; // the link is still there
    inside.innerHTML = await response.text(); // the server has escaped all that came from outside
    relativeTimes(inside);
    return true;
  } catch {
    return false; // the server cannot be reached
  } finally {
    inside.removeAttribute("aria-busy");
  }
}

// A small part that is fetched again and again while somebody looks at the page.
const REFRESH_MS = 15000;

function refresh(part) {
  if (document.hidden || sessionStorage.getItem("live-paused") === "yes" || part.contains(document.activeElement)) return;
  load(part, part.dataset.refresh);
}

async function onToggle({ target }) {
  const path = target.open && target.dataset.load;
  if (path && await load(target.querySelector(":scope > div"), path)) delete target.dataset.load;
}

// -- the keyboard

let before = "";

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog[open]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key;
  if (before === "g") {
    const link = document.querySelector(`.menu a[data-key="${CSS.escape(key)}"]`);
    before = "";
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  before = key === "g" ? "g" : "";
  if (key === "/") {
    const box = document.querySelector("input[type=search]");
    event.preventDefault();
    if (box) box.focus(); else location.assign("/search");
  } else if (key === "?") {
    document.getElementById("keys")?.showModal();
  } else if (key === "j" || key === "k") {
    select(key === "j" ? 1 : -1);
  } else if (key === "p") {
    document.querySelector(".live:not([hidden]) button")?.click();
  }
}

function select(step) {
  const rows = [...document.querySelectorAll("main tbody tr, main .list > li")].filter((one) => one.querySelector("a"));
  if (!rows.length) return;
  const at = rows.findIndex((one) => one.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))];
  next.querySelector("a").focus();
}

// -- entries of a list that are ticked: some, all on the page, then all that match

function selecting(bar) {
  const [page, all, said] = ["page", "all", ""].map((name) => bar.querySelector(`[data-select${name ? `-${name}` : "ed"}]`));
  const boxes = () => [...document.querySelectorAll(`input[name=selected][form=${CSS.escape(bar.id)}]`)];
  const show = () => {
    const many = boxes();
    const ticked = many.filter((one) => one.checked).length;
    const whole = many.length > 0 && ticked === many.length;
    page.hidden = !many.length;
    page.firstElementChild.checked = whole;
    page.firstElementChild.indeterminate = ticked > 0 && !whole;
    if (all) {
      all.hidden = !whole; // first all on this page, then all that match
      if (!whole) all.firstElementChild.checked = false;
    }
    const every = all && all.firstElementChild.checked;
    const count = every ? Number(bar.dataset.total) : ticked;
    const text = count ? `${count.toLocaleString()} selected` : "";
    if (said.textContent !== text) said.textContent = text; // else the observer below would call this again
    for (const one of bar.querySelectorAll("button")) one.disabled = !count;
    bar.classList.toggle("nothing", !count);
  };
  page.firstElementChild.addEventListener("change", ({ target }) => {
    for (const one of boxes()) one.checked = target.checked;
    show();
  });
  document.addEventListener("change", ({ target }) => { if (target.form === bar) show(); });
  new MutationObserver(show).observe(bar.parentElement, { childList: true, subtree: true });
  show();
}

// -- light and dark

function theme(button) {
  const order = ["", "light", "dark"];
  const set = (name) => {
    if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
    button.textContent = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" }[name];
  };
  let now = localStorage.getItem("theme") || "";
  set(now);
  button.hidden = false;
  button.addEventListener("click", () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    localStorage.setItem("theme", now);
    set(now);
  });
}

// On a phone the menu is a row that may be wider than the screen.
function showCurrent(entry) {
  const row = entry.closest("ul");
  row.scrollLeft = entry.offsetLeft - (row.clientWidth - entry.offsetWidth) / 2;
}

for (const one of document.querySelectorAll(".menu [aria-current]")) showCurrent(one);
relativeTimes(document);
setInterval(() => relativeTimes(document), 10000);
for (const one of document.querySelectorAll("button.theme")) theme(one);
for (const one of document.querySelectorAll("form.selection")) selecting(one);
for (const one of document.querySelectorAll("select[data-submit]")) one.addEventListener("change", () => one.form.requestSubmit());
for (const one of document.querySelectorAll("dialog [data-close]")) one.addEventListener("click", () => one.closest("dialog").close());
document.addEventListener("toggle", onToggle, true);
for (const one of document.querySelectorAll("[data-refresh]")) setInterval(() => refresh(one), REFRESH_MS);
for (const one of document.querySelectorAll("[data-load-now]")) load(one, one.dataset.loadNow);
addEventListener("keydown", onKey);
