// Everything works without this; it only keeps pages fresh, times local and hands on the keyboard.
"use strict";

const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function spoken(seconds) {
  const far = Math.abs(seconds);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (far >= length) return ago.format(Math.trunc(seconds / length), unit);
  }
  return far < 5 ? "now" : ago.format(Math.trunc(seconds), "second");
}

// Within a sentence; of today, the hour and minute will do.
function clock(when) {
  const today = when.toDateString() === new Date().toDateString();
  return when.toLocaleString(undefined, today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

function localTimes(root) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    const when = new Date(one.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    const whole = when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
    one.title = whole;
    if ("ago" in one.dataset) one.textContent = spoken((when - Date.now()) / 1000);
    else one.textContent = "clock" in one.dataset ? clock(when) : whole;
  }
}

// -- parts of the page that the server sends anew

const FOCUSABLE = "a[href], button, summary, [tabindex]";

// Where the focus is in a part, so that it is there again when the part was made anew.
function placeOf(part, focused) {
  if (!part.contains(focused)) return null;
  const all = [...part.querySelectorAll(FOCUSABLE)];
  const href = focused.getAttribute("href");
  const same = all.filter((one) => one.getAttribute("href") === href);
  return { id: focused.id, href, which: same.indexOf(focused), at: all.indexOf(focused) };
}

function focusAt(part, { id, href, which, at }) {
  const all = [...part.querySelectorAll(FOCUSABLE)];
  const same = href === null ? [] : all.filter((one) => one.getAttribute("href") === href);
  const found = (id && part.querySelector(`#${CSS.escape(id)}`)) || same[which] || same[0] || all[Math.min(at, all.length - 1)];
  found?.focus({ preventScroll: true });
}

function watch(part) {
  const dot = document.querySelector(".live-dot");
  const say = (state, text) => {
    if (dot) { dot.hidden = false; dot.dataset.state = state; dot.textContent = text; }
  };
  const stream = new EventSource(part.dataset.live);
  stream.addEventListener("open", () => say("on", "live"));
  stream.addEventListener("error", () => say("off", "not live: trying to reach the server"));
  stream.addEventListener("part", (event) => {
    const html = JSON.parse(event.data);
    if (part.dataset.shown === html) return;
    const focused = document.activeElement;
    if (part.contains(focused) && focused.matches("input, select, textarea")) return; // somebody is writing
    const open = [...part.querySelectorAll("details[open][id]")].map((one) => one.id);
    const place = placeOf(part, focused);
    part.dataset.shown = html;
    part.innerHTML = html; // the server has escaped all that came from outside
    for (const id of open) part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    if (place) focusAt(part, place);
    localTimes(part);
  });
  addEventListener("pagehide", () => stream.close());
}

// A part that is fetched when it is opened or needed; until then it has a link to a page with the same.
async function load(inside, path) {
  inside.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(path, { headers: { accept: "text/html" } });
    if (!response.ok || response.redirected) return false; // the link is still there
    inside.innerHTML = await response.text(); // the server has escaped all that came from outside
    localTimes(inside);
    return true;
  } catch {
    return false; // the server cannot be reached
  } finally {
    inside.removeAttribute("aria-busy");
  }
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
  }
}

function select(step) {
  const rows = [...document.querySelectorAll("main tbody tr, main .list > li")].filter((one) => one.querySelector("a"));
  if (!rows.length) return;
  const at = rows.findIndex((one) => one.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))];
  next.querySelector("a").focus();
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
localTimes(document);
setInterval(() => localTimes(document), 10000);
for (const one of document.querySelectorAll("[data-live]")) watch(one);
for (const one of document.querySelectorAll("button.theme")) theme(one);
for (const one of document.querySelectorAll("select[data-submit]")) one.addEventListener("change", () => one.form.requestSubmit());
for (const one of document.querySelectorAll("dialog [data-close]")) one.addEventListener("click", () => one.closest("dialog").close());
document.addEventListener("toggle", onToggle, true);
for (const one of document.querySelectorAll("[data-load-now]")) load(one, one.dataset.loadNow);
addEventListener("keydown", onKey);
