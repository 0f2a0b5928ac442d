"use strict";
// Texts come from files: they go into the page as text only, never as markup.

const at = (id) => document.getElementById(id);
const percent = (p) => (p >= 0.995 ? (p === 1 ? "100 %" : "> 99 %") : `${Math.round(100 * p)} %`);

let card = null;
let busy = false;
const trail = []; // instances looked at, in order
let place = -1; // where on the trail we are

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
    if (response.status === 409) { // decided elsewhere meanwhile: show what stands now
      show(found);
      complain(found.error);
      return;
    }
    if (!response.ok) throw new Error(found.error);
    show(found);
  } catch (error) {
    const gone = error instanceof TypeError;
    complain(gone ? "The server has ended. All decisions shown as made are saved." : `Error: ${error.message}`);
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
  at("alert").hidden = true;
  at("title").textContent = `Review ${card.title}`;
  at("bar").max = Math.max(progress.total, 1);
  at("bar").value = progress.decided;
  at("count").textContent = `${progress.decided} of ${progress.total} decided, ${progress.corrected} corrected`;
  const over = card.instance === null;
  at("end").hidden = !over;
  for (const id of ["card", "rest"]) at(id).hidden = over;
  document.body.dataset.instance = over ? "" : card.instance;
  if (over) {
    say(card.note || "All is decided.");
    return;
  }
  if (trail[place] !== card.instance) {
    trail.splice(place + 1, trail.length, card.instance);
    place = trail.length - 1;
  }
  showInstance();
  showChoices();
  at("neighbours").replaceChildren(...card.neighbours.map(neighbour));
  const known = card.decided ? "decided" : "guess";
  say(`${card.note ? `${card.note} ` : ""}Instance ${card.row} of ${card.bag}: ${known} ${card.guess}.`);
}

function say(text) {
  at("status").textContent = text;
}

function showInstance() {
  at("name").textContent = `${card.bag}, instance ${card.row}`;
  at("others").textContent = `Its bag: ${card.size} instance${card.size === 1 ? "" : "s"}`;
  at("media").replaceChildren(picture(card, card.media, true));
  at("unusual").textContent = card.media ? "" : `The bars are its features, in standard deviations. Unusual: ${card.unusual.join(", ")}`;
}

function picture(item, media, large) {
  if (!media) return strip(item.bars, large ? "Features, as standard deviations from their mean" : "");
  const text = large ? media.text : item.text;
  if (text === null) return make("span", { className: "soft", textContent: "nothing to show" });
  const source = `media/${item.instance}`;
  if (media.kind === "image") return make("img", { src: source, alt: text, loading: "lazy" });
  if (media.kind === "audio" && large) return make("audio", { src: source, controls: true, title: text });
  return make(large ? "blockquote" : "span", { className: "text", textContent: text });
}

function strip(bars, name) {
  const canvas = make("canvas", { width: Math.max(bars.length, 1) * 8, height: 96 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", name);
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
    button.addEventListener("click", () => decide(choice.label));
    return make("li", {}, button);
  });
  at("choices").replaceChildren(...choices);
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

const actions = {
  u: () => ask("undo", { last: card.last }),
  s: () => ask("skip", { instance: card.instance, after: card.after }),
  ArrowLeft: () => walk(-1),
  ArrowRight: () => walk(1),
  "?": () => at("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (!card || event.repeat || event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
  const over = card.instance === null;
  if (event.key === "Enter" || event.key === " ") {
    if (over || event.target.closest("button, audio")) return; // they have a meaning of their own there
    event.preventDefault();
    decide(card.guess);
  } else if (/^[1-9]$/.test(event.key)) {
    const choice = over ? undefined : card.choices[event.key - 1];
    if (choice) decide(choice.label);
  } else if (Object.hasOwn(actions, event.key) && (!over || ["u", "?"].includes(event.key))) {
    if (event.target.closest("audio")) return;
    event.preventDefault();
    actions[event.key]();
  }
});

for (const [id, key] of Object.entries({ undo: "u", skip: "s", back: "ArrowLeft", forward: "ArrowRight", help: "?" })) {
  at(id).addEventListener("click", () => actions[key]());
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => card && show(card));
ask("card");
