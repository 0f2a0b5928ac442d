"use strict";
// Strings come from files: they are inserted as text, never as markup.

const at = (id) => document.getElementById(id);
const percent = (p) => (p >= 0.995 ? (p === 1 ? "100 %" : "> 99 %") : `${Math.round(100 * p)} %`);

let card = null;
let busy = false;
const trail = []; // instances that were shown, in order
let place = -1; // current position in the trail
let shown = null; // the instance on the card
let autoplay = null; // set by the first card, then by the user
let inDoubts = false;
const marked = new Set(); // several labels of one instance

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

async function ask(action, request) {
  if (busy) return;
  busy = true;
  try {
    const options = request && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) };
    const response = await fetch(action, options);
    const found = await response.json();
    if (response.status === 409) { // another page decided: show the current state
      show(found);
      complain(found.error);
      return;
    }
    if (!response.ok) throw new Error(found.error);
    if ("doubts" in found) showDoubts(found);
    else show(found);
  } catch (error) {
    const gone = error instanceof TypeError;
    complain(gone ? "The server has stopped. All decisions shown here are saved." : `Error: ${error.message}`);
  } finally {
    busy = false;
  }
}

function complain(text) {
  at("alert").textContent = text;
  at("alert").hidden = false;
}

function show(found) {
  card = found;
  const { progress } = card;
  seeDoubts(false);
  at("alert").hidden = true;
  if (autoplay === null) autoplay = at("autoplay").checked = card.autoplay;
  at("title").textContent = `Review ${card.title}`;
  at("bar").max = Math.max(progress.total, 1);
  at("bar").value = progress.decided;
  at("count").textContent = `${progress.decided} of ${progress.total} decided, ${progress.corrected} corrected`;
  const over = card.instance === null;
  at("end").hidden = !over;
  for (const id of ["card", "rest"]) at(id).hidden = over;
  document.body.dataset.instance = over ? "" : card.instance;
  const isNew = shown !== card.instance;
  shown = card.instance;
  if (over) {
    at("media").replaceChildren(); // stops a playing sound
    say(card.note || "All instances are decided.");
    return;
  }
  if (trail[place] !== card.instance) {
    trail.splice(place + 1, trail.length, card.instance);
    place = trail.length - 1;
  }
  if (isNew) {
    at("several").checked = false;
    showInstance();
  }
  marked.clear();
  showChoices();
  at("neighbours").replaceChildren(...card.neighbours.map(neighbour));
  const known = card.decided ? "decided" : "predicted";
  say(`${card.note ? `${card.note} ` : ""}${card.bag}, ${where()}: ${known} ${card.guess}.`);
}

function where() {
  return card.place || `instance ${card.row}`;
}

function say(text) {
  at("status").textContent = text;
}

function showInstance() {
  at("name").textContent = `${card.bag}, ${where()}`;
  at("others").textContent = `The bag: ${card.size} instance${card.size === 1 ? "" : "s"}`;
  at("media").replaceChildren(picture(card, card.media, true));
  for (const id of ["play", "auto"]) at(id).hidden = !sound();
  if (autoplay) play();
  at("unusual").textContent = card.media ? "" : `Bars show the features of the instance in standard deviations from their means. Most unusual: ${card.unusual.join(", ")}`;
}

function picture(item, media, large) {
  if (!media) return strip(item.bars, large ? "Features, as standard deviations from their mean" : "");
  const text = large ? media.text : item.text;
  if (text === null) return make("span", { className: "soft", textContent: media.kind === "audio" ? "recording not found" : "nothing to show" });
  const source = `media/${item.instance}`;
  if (media.kind === "image") return make("img", { src: source, alt: text, loading: "lazy" });
  if (media.kind === "audio" && large) return listen(item, media, source);
  return make(large ? "blockquote" : "span", { className: "text", textContent: text });
}

function listen(item, media, source) {
  // The server sends only the clip of a file that it can cut; the browser plays the part of others.
  const part = media.part ? `#t=${media.part.join(",")}` : "";
  const player = make("audio", { src: source + part, controls: true, title: media.text, preload: "auto" });
  if (media.part) {
    player.addEventListener("timeupdate", () => { if (player.currentTime >= media.part[1]) player.pause(); });
  }
  if (!media.drawn) return player;
  const image = make("img", { src: `spectrogram/${item.instance}`, alt: `Spectrogram of ${media.text}` });
  const caption = make("figcaption", {}, make("span", { textContent: `0 to ${+(media.hertz / 1000).toPrecision(3)} kHz` }), make("span", { textContent: `${+media.seconds.toPrecision(3)} s` }));
  const figure = make("div", {}, make("figure", {}, image, caption), player);
  return figure;
}

function sound() {
  return document.querySelector("#media audio");
}

function play() {
  const player = sound();
  if (!player) return;
  if (!player.paused && !player.ended) {
    player.pause();
    return;
  }
  player.currentTime = card.media.part ? card.media.part[0] : 0;
  player.play().catch((error) => {
    if (error.name === "AbortError") return; // stopped, or another instance is shown
    const waits = error.name === "NotAllowedError"; // before the first key press or click
    say(waits ? "Press Space to play: the browser needs a key press first." : "This sound cannot be played: its file is missing, damaged or in another format.");
  });
}

function strip(bars, name) {
  const canvas = make("canvas", { width: Math.max(bars.length, 1) * 8, height: 96 });
  const described = name ? { role: "img", "aria-label": name } : { "aria-hidden": "true" };
  for (const [key, value] of Object.entries(described)) canvas.setAttribute(key, value);
  const colours = getComputedStyle(document.documentElement);
  const pen = canvas.getContext("2d");
  bars.forEach((value, i) => {
    const height = Math.max((Math.abs(value) / 3) * 48, 1);
    pen.fillStyle = colours.getPropertyValue(value < 0 ? "--low" : "--accent");
    pen.fillRect(8 * i + 1, value < 0 ? 48 : 48 - height, 6, height);
  });
  return canvas;
}

function showChoices() {
  const choices = card.choices.map((choice, i) => {
    const keys = i < 9 ? [make("kbd", { textContent: i + 1 })] : [];
    if (choice.label === card.guess) keys.push(make("kbd", { textContent: "Enter" }));
    const label = make("span", { className: "label", textContent: choice.label });
    const chance = make("span", { className: "chance", textContent: card.decided && choice.label === card.guess ? "decided" : percent(choice.probability) });
    const button = make("button", { type: "button", className: choice.label === card.guess ? "guess" : "" }, ...keys, label, chance);
    button.addEventListener("click", () => choose(choice.label));
    return make("li", {}, button);
  });
  at("choices").replaceChildren(...choices);
  at("more").open = false;
  at("more").hidden = card.others.length === 0;
  at("unlisted").replaceChildren(...card.others.map((label) => {
    const button = make("button", { type: "button" }, make("span", { className: "label", textContent: label }));
    button.addEventListener("click", () => choose(label));
    return make("li", {}, button);
  }));
}

function choose(label) {
  if (!at("several").checked) {
    decide(label);
    return;
  }
  if (!marked.delete(label)) marked.add(label);
  for (const button of document.querySelectorAll("#choices button, #unlisted button")) {
    button.setAttribute("aria-pressed", String(marked.has(button.querySelector(".label").textContent)));
  }
  say(marked.size ? `Marked: ${[...marked].join(", ")}. Enter saves.` : "No label is marked.");
}

function unmark() {
  marked.clear();
  showChoices();
  at("main").focus({ preventScroll: true });
}

function neighbour(item) {
  const label = make("span", { className: `label${item.decided ? " decided" : ""}`, textContent: `${item.row}: ${item.label}${item.decided ? " ✓" : ""}` });
  const chance = make("span", { className: "chance", textContent: item.decided ? "" : percent(item.probability) });
  const button = make("button", { type: "button" }, make("span", { className: "line" }, label, chance), picture(item, card.media, false));
  if (item.instance === card.instance) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => ask("move", { to: item.instance }));
  return make("li", {}, button);
}

function decide(label) {
  at("main").focus({ preventScroll: true });
  ask("decide", { instance: card.instance, label, after: card.after });
}

function walk(step) {
  const next = place + step;
  if (next < 0) return;
  if (next < trail.length) {
    place = next;
    ask("move", { to: trail[next] });
  } else {
    ask("move", { instance: card.instance });
  }
}

function seeDoubts(yes) {
  inDoubts = yes;
  at("doubts").hidden = !yes;
  at("see-doubts").setAttribute("aria-pressed", String(yes));
  at("see-instances").setAttribute("aria-pressed", String(!yes));
  if (yes) {
    if (sound()) sound().pause();
    for (const id of ["card", "rest", "end"]) at(id).hidden = true;
  }
}

function showDoubts({ doubts }) {
  seeDoubts(true);
  at("alert").hidden = true;
  const none = "This model assumes that all label sets are right. Fit one that does not: bagwise fit -m orlr --noisy-sets.";
  const some = "Label sets that may be wrong, with the probability of the error, most probable first. bagwise fit --corrections uses your decisions.";
  const calm = "No label set is doubtful.";
  at("doubts-text").textContent = doubts === null ? none : doubts.length ? some : calm;
  at("doubt-list").replaceChildren(...(doubts || []).map(doubt));
  say(doubts === null ? none : `${doubts.length} doubtful label sets.`);
}

function doubt(row, i) {
  const missing = row.error === "missing";
  const listed = row.labels.length ? row.labels.join(", ") : "no label";
  const chance = make("span", { className: "chance", textContent: percent(row.doubt) });
  const head = make("div", {}, make("span", { className: "bag", textContent: row.bag }), `: ${listed}. `, missing ? `${row.label} may be missing ` : `${row.label} may be wrong `, chance);
  const choose = (present, text) => {
    const chosen = row.present === present;
    const button = make("button", { type: "button", textContent: text });
    button.setAttribute("aria-pressed", String(chosen));
    button.addEventListener("click", () => ask("judge", { row: i, present: chosen ? null : present }));
    return button;
  };
  const look = make("button", { type: "button", textContent: "Show the most probable instance" });
  look.addEventListener("click", () => ask("move", { to: row.instance }));
  const buttons = [choose(true, `${row.label} is present`), choose(false, `${row.label} is absent`), look];
  return make("li", { className: row.present === null ? "" : "judged" }, head, make("p", { className: "buttons" }, ...buttons));
}

const actions = {
  u: () => ask("undo", { last: card.last }),
  s: () => ask("decide", { instance: card.instance, label: null, after: card.after }),
  m: () => {
    at("more").open = !at("more").open;
    const first = at("unlisted").querySelector("button");
    if (at("more").open && first) first.focus();
  },
  p: play,
  " ": play,
  "+": () => {
    at("several").checked = !at("several").checked;
    unmark();
  },
  a: () => { autoplay = at("autoplay").checked = !autoplay; },
  d: () => ask(inDoubts ? "card" : "doubts"),
  ArrowLeft: () => walk(-1),
  ArrowRight: () => walk(1),
  "?": () => at("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (!card || event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
  if (event.key === " " && !event.target.closest("audio")) event.preventDefault(); // Space must not press a button
  if (event.repeat || event.target.closest("audio")) return; // the player has its own keys
  const over = card.instance === null || inDoubts;
  if (event.key === "Enter") {
    if (over || event.target.closest("button, input, summary")) return;
    event.preventDefault();
    decide(marked.size ? [...marked].join(";") : card.guess);
  } else if (/^[1-9]$/.test(event.key)) {
    const choice = over ? undefined : card.choices[event.key - 1];
    if (choice) choose(choice.label);
  } else if (Object.hasOwn(actions, event.key) && (!over || ["u", "?", "d"].includes(event.key))) {
    event.preventDefault();
    actions[event.key]();
  }
});
document.addEventListener("keyup", (event) => { // Firefox presses a button on keyup
  if (event.key === " " && event.target.closest("button") && !at("keys").open) event.preventDefault();
});
document.addEventListener("click", (event) => { // so that Enter confirms again after a click
  if (event.target.closest("main button")) at("main").focus({ preventScroll: true });
});

at("autoplay").addEventListener("change", () => { autoplay = at("autoplay").checked; });
at("several").addEventListener("change", unmark);
at("see-doubts").addEventListener("click", () => ask("doubts"));
at("see-instances").addEventListener("click", () => ask("card"));
for (const [id, key] of Object.entries({ undo: "u", skip: "s", play: "p", back: "ArrowLeft", forward: "ArrowRight", help: "?" })) {
  at(id).addEventListener("click", () => actions[key]());
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!card || inDoubts) return;
  shown = null; // redraw bars in the new colours
  show(card);
});
ask("card");
