// Live parts of a page: the server sends them anew whenever they have changed. Without this, a page stays as it was.
"use strict";
{
  const RECONNECT_SECONDS = 10; // after a refusal; a lost connection is opened again by the browser
  const SCROLLED = ".table, .trace";
  const bar = document.querySelector(".live");
  const parts = [...document.querySelectorAll("[data-live]")].map((element) => (
    { element, stream: null, shown: "", held: null, heldSince: 0, reconnect: 0 }
  ));
  let paused = sessionStorage.getItem("live-paused") === "yes";
  let pressed = false; // a click on something that is replaced between press and release would be lost
  let left = false;
  let freshAt = Date.now(); // what the page shows was true at this time

  // -- what an update must not destroy

  function isFilledIn(field) {
    if (field.type === "hidden") return false;
    if (field === document.activeElement) return field.matches("input, select, textarea");
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.options) {
      const usual = [...field.options].findIndex((one) => one.defaultSelected);
      return field.selectedIndex !== Math.max(0, usual);
    }
    return field.value !== field.defaultValue;
  }

  function reasonToHold(element) {
    const selection = getSelection();
    if (!selection.isCollapsed && selection.rangeCount && selection.getRangeAt(0).intersectsNode(element)) return "text is selected";
    if ([...element.querySelectorAll("input, select, textarea")].some(isFilledIn)) return "a form is being filled in";
    // An open <details> with an id is opened again after the update; others are menus.
    if (element.querySelector("details[open]:not([id]), details.menu[open], dialog[open]")) return "a menu is open";
    return pressed ? "something is pressed" : "";
  }

  // -- updates

  function update(part, html) {
    const { element } = part;
    if (part.shown === html) return;
    const open = [...element.querySelectorAll("details[open][id]")].map((one) => one.id);
    const scrolled = [...element.querySelectorAll(SCROLLED)].map((one) => [one.scrollLeft, one.scrollTop]);
    const place = placeOf(element, document.activeElement);
    part.shown = html;
    element.innerHTML = html; // the server has escaped all that came from outside
    for (const id of open) element.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    element.querySelectorAll(SCROLLED).forEach((one, which) => { if (scrolled[which]) one.scrollTo(...scrolled[which]); });
    if (place) focusAt(element, place);
    relativeTimes(element);
  }

  function receive(part, html) {
    if (reasonToHold(part.element) && part.shown !== html) {
      part.heldSince ||= Date.now();
      part.held = html;
    } else {
      release(part);
      update(part, html);
      freshAt = Date.now();
    }
    show();
  }

  function release(part) {
    part.held = null;
    part.heldSince = 0;
  }

  function flush() {
    for (const part of parts) if (part.held !== null && !reasonToHold(part.element)) receive(part, part.held);
  }

  // -- the connection

  function connect(part) {
    const stream = new EventSource(part.element.dataset.live);
    part.stream = stream;
    stream.addEventListener("open", show);
    stream.addEventListener("error", () => {
      show();
      if (stream.readyState === EventSource.CLOSED && part.stream === stream) {
        part.stream = null;
        part.reconnect = setTimeout(follow, RECONNECT_SECONDS * 1000);
      }
    });
    stream.addEventListener("part", (event) => receive(part, JSON.parse(event.data)));
  }

  function disconnect(part) {
    clearTimeout(part.reconnect);
    if (isOpen(part)) freshAt = part.heldSince || Date.now();
    part.stream?.close();
    part.stream = null;
    release(part); // whoever connects again is sent it again
  }

  const isOpen = (part) => part.stream?.readyState === EventSource.OPEN;

  // A page that nobody sees holds no connection: a browser has few for all pages of one server.
  function follow() {
    const wanted = !paused && !left && document.visibilityState === "visible";
    for (const part of parts) {
      if (!wanted) disconnect(part);
      else if (!part.stream) connect(part);
    }
    show();
  }

  // -- what the page says about it

  function age() {
    const seconds = Math.max(0, Math.round((Date.now() - freshAt) / 1000));
    for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= length) return `${Math.floor(seconds / length)}\u00a0${unit}\u00a0old`;
    }
    return `${seconds}\u00a0s\u00a0old`;
  }

  function show() {
    const dot = bar.querySelector(".live-dot"), button = bar.querySelector("button");
    const held = parts.find((one) => one.held !== null);
    const on = parts.every(isOpen);
    if (on && !held) freshAt = Date.now();
    const state = paused ? "paused" : !on ? "off" : held ? "held" : "on";
    const text = {
      paused: `paused, ${age()}`,
      off: `not live, ${age()}`,
      held: `an update waits: ${held && reasonToHold(held.element)}`,
      on: "live",
    }[state];
    dot.dataset.state = state;
    if (dot.textContent !== text) dot.textContent = text;
    button.firstChild.data = paused ? "Resume" : "Pause";
  }

  function toggle() {
    paused = !paused;
    sessionStorage.setItem("live-paused", paused ? "yes" : "no");
    follow();
  }

  if (parts.length && bar) {
    bar.hidden = false;
    bar.querySelector("button").addEventListener("click", toggle);
    const later = () => setTimeout(flush);
    for (const one of ["selectionchange", "focusout", "input", "change", "reset", "submit"]) document.addEventListener(one, later);
    document.addEventListener("toggle", later, true);
    addEventListener("pointerdown", () => { pressed = true; });
    for (const one of ["pointerup", "pointercancel"]) addEventListener(one, () => { pressed = false; later(); });
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => { left = true; follow(); });
    addEventListener("pageshow", () => { left = false; follow(); });
    follow();
    setInterval(() => { flush(); show(); }, 1000);
  }
}
