// Shows results while somebody types; without it, the form and its links work as they are.
"use strict";

const TYPING_MS = 200; // the pause after which a query is sent

function searchAsTyped(form) {
  const part = document.getElementById(form.dataset.results);
  const status = document.getElementById(form.dataset.status);
  let timer = 0;
  let request = null;
  let shown = path();

  function path() {
    const given = [...new FormData(form)].filter(([, value]) => value.trim());
    return given.length ? `${form.action}?${new URLSearchParams(given)}` : form.action;
  }

  // Sets the fields to what a link or the history asks for.
  function fill(query) {
    for (const field of form.elements) {
      if (!field.name) continue;
      field.value = query.get(field.name) ?? "";
      if (field.type === "hidden") field.disabled = !field.value;
    }
  }

  function say(text, problem = false) {
    status.className = problem ? "note bad" : "hidden-label";
    status.textContent = text;
  }

  async function show(to, { history: entry = "" } = {}) {
    clearTimeout(timer);
    request?.abort(); // what it would bring is out of date
    const current = (request = new AbortController());
    part.setAttribute("aria-busy", "true");
    try {
      const address = new URL(to);
      address.searchParams.set("part", "results");
      const response = await fetch(address, { signal: current.signal, headers: { accept: "text/html" } });
      if (response.redirected || response.status === 401) { location.assign(to); return; }
      if (!response.ok) throw new Error(`the server responded with status ${response.status}`);
      replace(await response.text());
      shown = to;
      if (entry === "push" && to !== location.href) history.pushState(null, "", to);
      if (entry === "replace") history.replaceState(null, "", to);
    } catch (error) {
      if (error.name !== "AbortError") say(`The search failed: ${error.message}. Press Enter to try again.`, true);
    } finally {
      if (request === current) { request = null; part.removeAttribute("aria-busy"); }
    }
  }

  function replace(html) {
    const open = [...part.querySelectorAll("details[open][id]")].map((one) => one.id);
    const place = placeOf(part, document.activeElement);
    part.innerHTML = html; // the server has escaped all that came from outside
    for (const id of open) part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    if (place) focusAt(part, place);
    relativeTimes(part);
    const { title, said } = part.firstElementChild.dataset;
    document.title = title + document.title.slice(document.title.lastIndexOf(" · "));
    say(said);
  }

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(() => { if (path() !== shown) show(path(), { history: "replace" }); }, TYPING_MS);
  }

  form.addEventListener("input", (event) => { if (!event.isComposing) typed(); });
  form.addEventListener("compositionend", typed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show(path(), { history: "push" });
  });
  part.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    const plain = !event.defaultPrevented && event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    if (!link || !plain || link.origin !== location.origin || link.pathname !== location.pathname) return;
    event.preventDefault();
    fill(new URL(link.href).searchParams);
    show(link.href, { history: "push" });
    if (link.rel) scrollTo(0, 0); // to another page
  });
  addEventListener("popstate", () => {
    fill(new URL(location.href).searchParams);
    show(location.href);
  });
}

for (const one of document.querySelectorAll("form[data-results]")) searchAsTyped(one);
