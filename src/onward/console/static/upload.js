// Files and folders that are chosen or dropped: a list of them, sent a few at a time. Without this, the form sends files.
"use strict";
{
  const PARALLEL = 3;
  const LISTED = 200; // files of a folder that are listed; of more, those with a problem
  const FORM_BYTES = 1000; // that a request has besides its file
  const form = document.querySelector("form.drop");
  const box = document.querySelector(".uploads");
  const number = (count) => count.toLocaleString("en").replaceAll(",", "\u00a0");
  const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

  function size(bytes) {
    if (bytes < 1000) return counted(bytes, "byte");
    const [length, unit] = bytes < 1e6 ? [1e3, "kB"] : bytes < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
    return `${(bytes / length).toFixed(1)} ${unit}`;
  }

  // A source is a file of its own, or a folder; each of its files is waiting, sending, sent, refused, failed or cancelled.
  let sources = [];
  let began = false;
  let waitUntil = 0; // the server has asked for a pause

  const files = () => sources.flatMap((source) => source.files);
  const inState = (...states) => files().filter((file) => states.includes(file.state));

  // -- adding to the list

  function refusal(content) {
    const most = Number(form.dataset.maxBytes);
    if (!content.size) return "It is empty.";
    if (content.size + FORM_BYTES > most) return `It has ${size(content.size)}; the server takes at most ${size(most)} a file.`;
    return "";
  }

  function addSource(name, folder, found, notes = []) {
    const same = (one) => one.folder === folder && one.name === name && one.files.length === found.length
      && one.files.every((file, which) => file.path === found[which].path && file.content.size === found[which].content.size
        && file.content.lastModified === found[which].content.lastModified);
    if (sources.some(same)) return say(`${name} is in the list already.`);
    if (!found.length) return say([`${name} has no files to be sent.`, ...notes].join(" "));
    const source = { name, folder, state: "", text: "", link: "", notes: [...notes] };
    source.files = found.map(({ path, content }) => {
      const problem = refusal(content);
      return { path, content, source, state: problem ? "refused" : "waiting", text: problem, loaded: 0, digest: "", request: null };
    });
    if (folder && source.files.filter((file) => file.state === "waiting").length > Number(form.dataset.maxFiles)) {
      for (const file of source.files) file.state = "refused";
      source.state = "refused";
      source.text = `It has ${counted(found.length, "file")}; a folder may have ${number(Number(form.dataset.maxFiles))}. Send its folders one by one.`;
    }
    sources.push(source);
  }

  const isHidden = (path) => path.split("/").some((part) => part.startsWith(".") || part === "node_modules" || part === "__pycache__");
  // Half a character, as some file systems have them, cannot be sent.
  const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text);

  function addFolder(name, found) {
    const left = found.filter((one) => isHidden(one.path)).length;
    const kept = found.filter((one) => !isHidden(one.path)).sort((one, other) => (one.path < other.path ? -1 : 1));
    addSource(wellFormed(name), true, kept, left ? [`${counted(left, "file")} that the ingestion ignores (hidden, of tools) ${left === 1 ? "is" : "are"} left out.`] : []);
  }

  function addChosen(chosen) {
    const folders = new Map();
    for (const content of chosen) {
      const [folder, ...rest] = (content.webkitRelativePath || "").split("/");
      if (!rest.length) addSource(wellFormed(content.name), false, [{ path: content.name, content }]);
      else folders.set(folder, [...(folders.get(folder) || []), { path: wellFormed(rest.join("/")), content }]);
    }
    for (const [name, found] of folders) addFolder(name, found);
    if (!chosen.length) say("The folder has no files.");
    show();
  }

  const read = (entry) => new Promise((resolve, reject) => { entry.file(resolve, reject); });

  async function entriesOf(folder) {
    const reader = folder.createReader();
    const all = [];
    for (;;) { // it gives some at a time
      const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
      if (!some.length) return all;
      all.push(...some);
    }
  }

  async function filesIn(folder, path, unreadable) {
    const found = [];
    let entries = [];
    try { entries = await entriesOf(folder); } catch { unreadable.push(path || folder.name); }
    for (const entry of entries) {
      const place = path ? `${path}/${entry.name}` : entry.name;
      if (isHidden(place)) found.push({ path: place, content: null });
      else if (entry.isDirectory) found.push(...await filesIn(entry, place, unreadable));
      else try { found.push({ path: wellFormed(place), content: await read(entry) }); } catch { unreadable.push(place); }
    }
    return found;
  }

  async function addDropped(entries, plain) {
    say("Reading what was dropped…");
    let problem = "";
    for (const entry of entries) {
      const unreadable = [];
      if (entry.isDirectory) addFolder(entry.name, await filesIn(entry, "", unreadable));
      else try { addSource(wellFormed(entry.name), false, [{ path: entry.name, content: await read(entry) }]); } catch { unreadable.push(entry.name); }
      if (unreadable.length) problem += `${unreadable.slice(0, 5).join(", ")}${unreadable.length > 5 ? " and others" : ""} cannot be read by the browser. `;
    }
    if (!entries.length) addChosen(plain);
    if (problem) say(problem); else if (message === "Reading what was dropped…") say("");
    show();
  }

  // -- sending

  function failed(file, state, text) {
    Object.assign(file, { state, text, loaded: 0, request: null });
  }

  // What the server says about a refusal, as a sentence.
  function reasonOf(request) {
    try { return JSON.parse(request.responseText).detail || JSON.parse(request.responseText).title; } catch { return `The server has answered ${request.status}.`; }
  }

  function send(path, body, { onprogress, type } = {}) {
    const request = new XMLHttpRequest(); // fetch cannot say how much was sent
    request.open("POST", path);
    request.setRequestHeader("accept", "application/json");
    if (type) request.setRequestHeader("content-type", type);
    if (onprogress) request.upload.addEventListener("progress", onprogress);
    request.send(body);
    return request;
  }

  function sendFile(file) {
    const body = new FormData();
    body.append("file", file.content, file.path.split("/").at(-1));
    file.state = "sending";
    file.text = "";
    const request = send(file.source.folder ? "/v3/uploads" : "/v3/documents", body, {
      onprogress: (event) => { file.loaded = event.total ? event.loaded / event.total : 0; later(); },
    });
    file.request = request;
    request.addEventListener("load", () => {
      file.request = null;
      if (request.status < 300) {
        Object.assign(file, { state: "sent", loaded: 1, content: { size: file.content.size, lastModified: file.content.lastModified } });
        if (file.source.folder) file.digest = JSON.parse(request.responseText).digest;
        else taken(file.source, request);
      } else if (!asksForPause(request, () => { file.state = "waiting"; file.loaded = 0; })) {
        // Some may be accepted later; what the server says about the content stays.
        failed(file, request.status >= 500 || request.status === 401 ? "failed" : "refused", reasonOf(request));
      }
      next();
    });
    request.addEventListener("error", () => { failed(file, "failed", "The server cannot be reached, or the file has changed or gone."); next(); });
    request.addEventListener("abort", () => { failed(file, "cancelled", ""); next(); });
  }

  function asksForPause(request, again) {
    if (request.status !== 429 && request.status !== 503) return false;
    waitUntil = Date.now() + 1000 * Number(request.getResponseHeader("retry-after") || 5);
    setTimeout(next, waitUntil - Date.now() + 50);
    again();
    return true;
  }

  function taken(source, request) {
    const { id, duplicate } = JSON.parse(request.responseText);
    const text = duplicate ? "It is known already, and left as it is." : "";
    Object.assign(source, { state: duplicate ? "known" : "taken", text, link: `/tasks/${encodeURIComponent(id)}` });
  }

  // When all files of a folder are there, the folder is submitted.
  function submitFolder(source) {
    const sent = source.files.filter((file) => file.state === "sent");
    source.state = "submitting";
    const body = JSON.stringify({ type: "folder", name: source.name, files: sent.map(({ path, digest }) => ({ path, digest })) });
    const request = send("/v3/documents", body, { type: "application/json" });
    request.addEventListener("load", () => {
      if (request.status < 300) taken(source, request);
      else if (!asksForPause(request, () => { source.state = ""; })) Object.assign(source, { state: "failed", text: reasonOf(request) });
      next();
    });
    request.addEventListener("error", () => { Object.assign(source, { state: "failed", text: "The server cannot be reached." }); next(); });
  }

  function isWhole(source) {
    const open = source.files.some((file) => ["waiting", "sending", "failed", "cancelled"].includes(file.state));
    return source.folder && !source.state && !open && source.files.some((file) => file.state === "sent");
  }

  function next() {
    if (began && Date.now() >= waitUntil) {
      for (const file of inState("waiting")) {
        if (inState("sending").length >= PARALLEL) break;
        if (!file.source.state) sendFile(file);
      }
      for (const source of sources.filter(isWhole)) submitFolder(source);
    }
    if (!inState("waiting", "sending").length) began = false;
    if (began) later(); else show();
  }

  function start() {
    began = true;
    next();
  }

  function retry(some) {
    for (const file of some) if (["failed", "cancelled"].includes(file.state)) Object.assign(file, { state: "waiting", text: "" });
    for (const source of sources) if (source.state === "failed") Object.assign(source, { state: "", text: "" });
    start();
  }

  function cancel(some) {
    for (const file of some) {
      if (file.request) file.request.abort();
      else if (file.state === "waiting") failed(file, "cancelled", "");
    }
    next();
  }

  function remove(file) {
    file.request?.abort();
    file.source.files = file.source.files.filter((one) => one !== file);
    sources = sources.filter((source) => source.files.length);
    next();
  }

  // -- the list

  let message = "";
  const say = (text) => { message = text; };
  const TONES = { sent: "good", taken: "good", refused: "bad", failed: "bad", cancelled: "warn", sending: "busy", submitting: "busy" };
  const WORDS = { "": "to be sent", waiting: "to be sent" };

  function make(kind, className = "", text = "") {
    const element = document.createElement(kind);
    element.className = className;
    element.textContent = text;
    return element;
  }

  function button(text, name, act) {
    const element = make("button", "quiet", text);
    element.type = "button";
    element.append(make("span", "hidden-label", ` ${name}`));
    element.addEventListener("click", act);
    return element;
  }

  function fileButtons(file) {
    if (file.state === "sending") return [button("Cancel", file.path, () => cancel([file]))];
    const buttons = ["failed", "cancelled"].includes(file.state) ? [button("Retry", file.path, () => retry([file]))] : [];
    return file.state === "sent" ? buttons : [...buttons, button("Remove", file.path, () => remove(file))];
  }

  function row(name, detail, state, text, loaded, buttons) {
    const item = make("li"), line = make("span", "row apart"), what = make("span", "wrap"), right = make("span", "row");
    what.append(make("bdi", "", name), make("span", "faint", ` ${detail}`));
    right.append(make("span", `badge ${TONES[state] || ""}`, WORDS[state] ?? state), ...buttons);
    line.append(what, right);
    item.append(line);
    if (loaded !== null) {
      const progress = make("progress");
      Object.assign(progress, { max: 1, value: loaded });
      progress.setAttribute("aria-label", `${name}: sent so far`);
      item.append(progress);
    }
    if (text) item.append(make("span", "faint wrap", text));
    return item;
  }

  function linkTo(source) {
    const link = make("a", "", "See how it goes");
    link.href = source.link;
    return link;
  }

  function sourceRow(source) {
    const [first] = source.files;
    if (!source.folder) {
      const buttons = source.link ? [linkTo(source)] : fileButtons(first);
      return row(source.name, size(first.content.size), source.state || first.state, source.text || first.text, first.state === "sending" ? first.loaded : null, buttons);
    }
    const whole = source.files.filter((file) => file.state !== "refused");
    const done = whole.reduce((sum, file) => sum + file.loaded * file.content.size, 0);
    const bytes = whole.reduce((sum, file) => sum + file.content.size, 0);
    const sending = source.files.some((file) => file.state === "sending");
    const bad = source.files.filter((file) => ["refused", "failed", "cancelled"].includes(file.state));
    const state = source.state || (sending ? "sending" : bad.some((file) => file.state !== "refused") ? "failed" : "");
    const refused = bad.filter((file) => file.state === "refused").length, broken = bad.length - refused;
    const notes = [source.text, broken ? `${counted(broken, "file")} not sent: retry or remove ${broken === 1 ? "it" : "them"}.` : "",
      refused && source.state !== "refused" ? `${counted(refused, "file")} refused and left out.` : "", ...source.notes];
    const buttons = source.link ? [linkTo(source)] : source.state === "submitting" ? [] : [button("Remove", source.name, () => {
      cancel(source.files);
      sources = sources.filter((one) => one !== source);
      next();
    })];
    const item = row(`${source.name}/`, `${counted(whole.length, "file")}, ${size(bytes)}`, state, notes.filter(Boolean).join(" "), sending ? done / (bytes || 1) : null, buttons);
    const inside = make("details"), list = make("ul", "list");
    inside.open = source.open ?? false;
    inside.addEventListener("toggle", () => { // also when it is made open
      if (inside.open === (source.open ?? false)) return;
      source.open = inside.open;
      show();
    });
    inside.append(make("summary", "faint", "Its files"), list);
    if (inside.open) {
      const listed = new Set([...bad, ...source.files.slice(0, LISTED)]);
      list.append(...[...listed].map((file) => row(file.path, size(file.content.size), file.state, file.text, file.state === "sending" ? file.loaded : null, source.link ? [] : fileButtons(file))));
      if (listed.size < source.files.length) list.append(make("li", "faint", `and ${number(source.files.length - listed.size)} more`));
    }
    item.append(inside);
    return item;
  }

  // The focus stays on the same control when the list is made anew.
  function keepFocus(list, renew) {
    const place = placeOf(list, document.activeElement);
    renew();
    if (place) focusAt(list, place);
  }

  function show() {
    const waiting = inState("waiting"), problems = [...inState("failed", "cancelled"), ...sources.filter((one) => one.state === "failed")];
    const sent = inState("sent").length, sending = inState("sending").length, refused = inState("refused").length;
    const bytes = waiting.reduce((sum, file) => sum + file.content.size, 0);
    box.hidden = !sources.length && !message;
    const buttons = {
      send: waiting.length > 0 && !began, retry: problems.length > 0 && !sending, cancel: began, clear: sources.length > 0 && !sending,
    };
    for (const [name, shown] of Object.entries(buttons)) box.querySelector(`[data-do=${name}]`).hidden = !shown;
    box.querySelector("[data-do=send]").textContent = `Send ${counted(waiting.length, "file")}, ${size(bytes)}`;
    box.querySelector("h2").textContent = began ? "Being sent" : waiting.length ? "To be sent" : "What was sent";
    const summary = [`${number(sent)} of ${counted(files().length, "file")} sent`];
    if (refused) summary.push(`${number(refused)} refused`);
    if (problems.length) summary.push(`${number(problems.length)} failed or cancelled`);
    if (Date.now() < waitUntil && began) summary.push("the server has asked for a pause");
    const status = box.querySelector("[role=status]"), text = [sources.length ? `${summary.join(", ")}.` : "", message].filter(Boolean).join(" ");
    if (status.textContent !== text) status.textContent = text;
    const list = box.querySelector("ul");
    keepFocus(list, () => list.replaceChildren(...sources.map(sourceRow)));
  }

  let drawing = 0;
  function later() {
    drawing ||= setTimeout(() => { drawing = 0; show(); }, 200);
  }

  // -- choosing and dropping

  function choose(folder) {
    const input = document.createElement("input");
    Object.assign(input, { type: "file", multiple: true, webkitdirectory: folder });
    input.addEventListener("change", () => { say(""); addChosen([...input.files]); });
    input.click();
  }

  const hasFiles = (event) => [...event.dataTransfer.types].includes("Files");

  function onDrop(event) {
    document.body.classList.remove("dropping");
    if (!hasFiles(event)) return;
    event.preventDefault();
    // Both are gone after this event.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    addDropped(entries, [...event.dataTransfer.files]);
  }

  if (form && box) {
    form.querySelector("label").hidden = true;
    form.querySelector("p:last-of-type").hidden = true;
    form.querySelector("input[type=file]").disabled = true;
    for (const one of form.querySelectorAll(".row, .each")) one.hidden = false;
    for (const one of form.querySelectorAll("[data-choose]")) one.addEventListener("click", () => choose(one.dataset.choose === "folder"));
    form.addEventListener("submit", (event) => event.preventDefault());
    const acts = { send: start, retry: () => retry(files()), cancel: () => cancel(files()), clear: () => { sources = []; say(""); show(); } };
    for (const [name, act] of Object.entries(acts)) box.querySelector(`[data-do=${name}]`).addEventListener("click", act);
    addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
    addEventListener("drop", onDrop);
    addEventListener("beforeunload", (event) => { if (inState("sending").length) event.preventDefault(); });
  }
}
