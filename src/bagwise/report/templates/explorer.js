"use strict";
// Shows all bags of a report: a list of names in pages, and one open bag. Every string of the data
// becomes a text node; nothing is parsed as HTML.
(() => {
  const byId = (id) => document.getElementById(id);
  const { bags, offsets, instances, labels, media, maps, heads, unit, numbers } = JSON.parse(byId("explorer-data").textContent);
  const PAGE = 50, FIRST = 25;
  const SVG = "http://www.w3.org/2000/svg";
  const list = byId("list"), search = byId("search"), show = byId("show"), order = byId("order"), article = byId("bag");
  const state = { found: [], page: 0, open: 0 };
  const keys = new Map(instances.keys);

  const make = (tag, attributes = {}, ...children) => {
    const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const number = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e6) ? String(Number(value.toPrecision(3))) : value.toFixed(3);
  };
  const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

  // ---- finding bags
  // Paths of recordings and slides share folders: the list leaves these out.
  const first = bags.id[0] ?? "";
  const inFolder = (id) => id.startsWith(first.slice(0, folder)) && id.length > folder;
  let folder = first.length;
  do {
    const outer = first.slice(0, Math.max(folder - 1, 0));
    folder = Math.max(outer.lastIndexOf("/"), outer.lastIndexOf("\\")) + 1;
  } while (folder > 0 && !bags.id.every(inFolder));
  const texts = bags.id.map((id, i) => {
    const parts = [id, bags.truth?.[i] ?? "", (bags.heldOut ?? bags.predicted)?.[i] ?? ""];
    if (instances.text) parts.push(...instances.text.slice(offsets[i], offsets[i + 1]));
    return parts.join("\n").toLowerCase();
  });
  const certainty = numbers ? null : bags.certainty ?? bags.probability ?? bags.score?.map((value) => value && Math.abs(value));
  const compare = (values, sign) => (a, b) => sign * ((values[a] ?? Infinity) - (values[b] ?? Infinity)) || a - b;
  const orders = { "as in the file": null };
  if (certainty) orders["least certain first"] = compare(certainty, 1);
  if (bags.error) orders["largest error first"] = compare(bags.error.map((value) => value ?? -Infinity), -1);
  if (bags.score) {
    const what = numbers ? "prediction" : "score";
    orders[`highest ${what} first`] = compare(bags.score, -1);
    orders[`lowest ${what} first`] = compare(bags.score, 1);
  }
  const sizes = bags.size;
  const answers = bags.heldOut ?? bags.predicted;
  orders["largest first"] = compare(sizes, -1);
  const filters = { [`all ${unit}s`]: () => true };
  if (bags.wrong) {
    filters["wrong predictions"] = (i) => bags.wrong[i] === 1;
    filters["correct predictions"] = (i) => bags.wrong[i] === 0;
  }
  const among = (values) => [...new Set(values)].filter((value) => value !== null).sort().slice(0, 40);
  if (bags.truth && !numbers) for (const value of among(bags.truth)) filters[`label: ${value || "none"}`] = (i) => bags.truth[i] === value;
  if (answers && !numbers) for (const value of among(answers)) filters[`predicted: ${value || "none"}`] = (i) => answers[i] === value;
  for (const name of Object.keys(filters)) show.append(make("option", { value: name }, name));
  for (const name of Object.keys(orders)) order.append(make("option", { value: name }, name));

  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    const allowed = filters[show.value];
    state.found = bags.id.map((_, i) => i).filter((i) => allowed(i) && texts[i].includes(wanted));
    if (orders[order.value]) state.found.sort(orders[order.value]);
    state.page = 0;
    const all = state.found.length === bags.id.length;
    byId("count").textContent = all ? plural(bags.id.length, unit) : `${plural(state.found.length, unit)} of ${bags.id.length.toLocaleString("en")}`;
    drawList();
  };

  const named = (k) => (instances.label[k] < 0 ? "" : labels[instances.label[k]]);
  const saying = (i) => {
    if (answers) return answers[i] || "none";
    return unit === "row" && instances.label ? `${heads.label} ${named(i)}` : plural(sizes[i], "instance");
  };
  const drawList = () => {
    const start = state.page * PAGE, pages = Math.max(1, Math.ceil(state.found.length / PAGE));
    list.setAttribute("start", start + 1);
    list.replaceChildren(...state.found.slice(start, start + PAGE).map((i) => {
      const wrong = bags.wrong?.[i] === 1;
      const said = saying(i);
      const cross = wrong ? [make("span", { "aria-hidden": "true" }, "✗ "), make("span", { class: "unseen" }, "wrong prediction: ")] : [];
      const answer = make("span", { class: wrong ? "answer wrong" : "answer", title: wrong ? `predicted ${said}, but the label is ${bags.truth[i] || "none"}` : said }, ...cross, said);
      const link = make("a", { href: `#bag-${i}`, "data-bag": i }, make("span", { class: "id", title: bags.id[i] }, bags.id[i].slice(folder)), answer);
      return make("li", {}, link);
    }));
    byId("place").textContent = `${state.page + 1} of ${pages}`;
    byId("back").disabled = state.page === 0;
    byId("next").disabled = state.page + 1 >= pages;
    mark();
  };
  const mark = () => {
    for (const link of list.querySelectorAll("a")) {
      if (Number(link.dataset.bag) === state.open) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const turn = (by) => {
    const last = Math.max(0, Math.ceil(state.found.length / PAGE) - 1);
    const page = Math.min(last, Math.max(0, state.page + by));
    if (page === state.page) return false;
    state.page = page;
    drawList();
    return true;
  };

  // ---- one bag
  const fact = (name, value, style) => make("div", {}, make("dt", {}, name), make("dd", style ? { class: style } : {}, value));
  const strip = (value, low, high) => {
    const from = low < 0 ? Math.min(low, 0) : 0, to = Math.max(high, 0), width = to - from || 1;
    const start = (Math.min(value, 0) - from) / width, length = Math.abs(value) / width;
    const bar = make("span", value < 0 ? { class: "against" } : {});
    bar.style.left = `${100 * start}%`;
    bar.style.width = `${Math.max(1, 100 * length)}%`;
    return make("span", { class: "strip", "aria-hidden": "true" }, bar);
  };
  const picture = (kind, k, described) => {
    const found = instances[kind];
    if (!found) return null;
    const [embedded, name] = [found.place[k], found.name[k] ?? ""];
    if (embedded < 0) return make("span", { class: "caption" }, name);
    if (kind === "audio") {
      const player = make("audio", { controls: "", preload: "metadata", src: media[embedded], "aria-label": name || described });
      return make("div", {}, player, make("span", { class: "caption" }, name));
    }
    const image = make("img", { src: media[embedded], alt: name || described, loading: "lazy" });
    image.addEventListener("load", () => { if (image.naturalWidth <= 40) image.classList.add("small"); });
    return image;
  };
  const columns = [
    ["image", instances.image, "image"],
    ["audio", instances.audio, "audio"],
    ["score", instances.score, heads.score],
    ["label", instances.label, heads.label],
    ["probability", instances.probability, heads.probability],
    ["text", instances.text, "text"],
  ].filter(([, values]) => values);
  const row = (k, low, high) => {
    const line = make("tr", keys.has(k) ? { class: "key" } : {});
    const place = String(instances.row[k]);
    line.append(make("th", { scope: "row", class: "number" }, place));
    const add = (head, style, ...children) => line.append(make("td", { "data-head": head, class: style }, ...children));
    if (instances.keys.length) add("", "", keys.has(k) ? make("span", { class: "badge" }, keys.get(k)) : null);
    for (const [kind, values, head] of columns) {
      if (kind === "score") {
        add(head, "number", number(values[k]));
        add("", "", values[k] === null ? null : strip(values[k], low, high));
      } else if (kind === "label") add(head, named(k).length <= 24 ? "short" : "", named(k));
      else if (kind === "probability") add(head, "number", number(values[k]));
      else if (kind === "text") add("", "text", values[k]);
      else add("", "", picture(kind, k, `row ${place}`));
    }
    return line;
  };
  const sources = (rows) => {
    const { source, box } = instances;
    const shown = source ? [...new Set(rows.map((k) => source.place[k]))].filter((s) => s >= 0) : [];
    return shown.map((s) => {
      const drawn = make("svg:svg", { viewBox: "0 0 1 1", role: "img", "aria-label": "the source image with its instances framed, the key instance in amber" });
      const image = new Image();
      image.addEventListener("load", () => {
        const [width, height] = [image.naturalWidth, image.naturalHeight];
        drawn.setAttribute("viewBox", `0 0 ${width} ${height}`);
        drawn.prepend(make("svg:image", { href: media[s], width, height }));
      });
      image.src = media[s];
      // The best instance last, so that its frame is on top.
      for (const k of rows.filter((k) => source.place[k] === s && box?.[k]).reverse()) {
        const [x, y, width, height] = box[k];
        const frame = make("svg:rect", { x, y, width, height, class: keys.has(k) ? "key" : "" });
        frame.append(make("svg:title", {}, `row ${instances.row[k]}${keys.has(k) ? `: ${keys.get(k)}` : ""}`));
        drawn.append(frame);
      }
      return make("figure", { class: "source" }, drawn);
    });
  };
  const heatMap = (i) => {
    if (!maps?.picture[i]) return [];
    const drawn = make("img", { src: maps.picture[i], alt: `Heat map of ${bags.id[i]}: ${plural(sizes[i], "instance")}` });
    return [make("figure", { class: "heat" }, drawn, make("figcaption", {}, maps.caption))];
  };
  const open = (i) => {
    state.open = i;
    const rows = Array.from({ length: offsets[i + 1] - offsets[i] }, (_, k) => offsets[i] + k);
    // Scores are sorted: the first is the largest.
    const values = instances.score ? rows.map((k) => instances.score[k]).filter((v) => v !== null) : [];
    const [low, high] = [Math.min(0, values.at(-1) ?? 0), Math.max(0, values[0] ?? 0)];
    const facts = make("dl", { class: "facts" });
    if (bags.truth) facts.append(fact(heads.truth ?? "label", bags.truth[i] === null ? "unknown" : bags.truth[i] || "none"));
    if (bags.heldOut) facts.append(fact("held out", bags.heldOut[i] || "none", bags.wrong?.[i] === 1 ? "wrong" : ""));
    if (bags.predicted) facts.append(fact(bags.heldOut ? "by this model" : "predicted", bags.predicted[i] || "none", !bags.heldOut && bags.wrong?.[i] === 1 ? "wrong" : ""));
    if (bags.score && !numbers) facts.append(fact(heads.bagScore, number(bags.score[i])));
    if (bags.probability) facts.append(fact("probability", number(bags.probability[i])));
    if (unit === "bag") facts.append(fact("instances", String(sizes[i])));
    else if (instances.label) facts.append(fact(heads.label, named(i)));
    const parts = [make("h3", { id: "bag-name" }, bags.id[i]), facts, ...heatMap(i), ...sources(rows)];
    const several = unit === "bag" && (columns.length || instances.keys.length);
    if (several || instances.image || instances.audio || instances.text) {
      const names = ["row", ...(instances.keys.length ? [""] : [])];
      for (const [kind, , head] of columns) names.push(head, ...(kind === "score" ? [""] : []));
      const body = make("tbody");
      const more = make("button", { type: "button" });
      const grow = (by) => {
        const start = body.children.length;
        body.append(...rows.slice(start, start + by).map((k) => row(k, low, high)));
        const left = rows.length - body.children.length;
        more.textContent = `Show ${plural(left, "more instance")}`;
        more.hidden = left === 0;
      };
      more.addEventListener("click", () => { const first = body.children.length; grow(rows.length); body.children[first].tabIndex = -1; body.children[first].focus(); });
      grow(FIRST);
      const cells = names.map((name) => (name ? make("th", { scope: "col", class: ["row", heads.score, heads.probability].includes(name) ? "number" : "" }, name) : make("td")));
      const table = make("table", { class: "instances", "aria-labelledby": "bag-name" }, make("thead", {}, make("tr", {}, ...cells)), body);
      parts.push(make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `Instances of ${bags.id[i]}` }, table), more);
    }
    article.replaceChildren(...parts);
    mark();
  };
  const tell = (i) => { byId("told").textContent = `${bags.id[i]}: ${saying(i)}`; };
  const reveal = () => {
    const { top } = article.getBoundingClientRect();
    if (top < 0 || top > 0.75 * innerHeight) article.scrollIntoView({ block: "start" });
  };
  const fromAddress = () => {
    const asked = /^#bag-(\d+)$/.exec(location.hash);
    if (!asked || Number(asked[1]) >= bags.id.length) return false;
    open(Number(asked[1]));
    const place = state.found.indexOf(state.open);
    if (place >= 0 && Math.floor(place / PAGE) !== state.page) { state.page = Math.floor(place / PAGE); drawList(); }
    reveal();
    return true;
  };

  // ---- keyboard and mouse
  const links = () => [...list.querySelectorAll("a")];
  const step = (by) => {
    const now = links().indexOf(document.activeElement);
    let next = now + by;
    if (next >= links().length) next = turn(1) ? 0 : now;
    else if (next < 0) next = turn(-1) ? links().length - 1 : now;
    const link = links()[next];
    if (!link) return;
    link.focus();
    history.replaceState(null, "", link.getAttribute("href"));
    open(Number(link.dataset.bag));
    tell(state.open);
  };
  list.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves) { event.preventDefault(); step(moves[event.key]); }
    if (event.key === "Home" || event.key === "End") { event.preventDefault(); links().at(event.key === "Home" ? 0 : -1)?.focus(); }
    if (event.key === "Enter") setTimeout(() => article.focus(), 0);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); (list.querySelector("[aria-current]") ?? links()[0])?.focus(); }
    if (event.key === "Enter") { event.preventDefault(); links()[0]?.click(); }
    if (event.key === "Escape") { search.value = ""; find(); }
  });
  article.addEventListener("keydown", (event) => { if (event.key === "Escape") (list.querySelector("[aria-current]") ?? search).focus(); });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    search.focus();
  });
  search.addEventListener("input", find);
  show.addEventListener("change", find);
  order.addEventListener("change", find);
  byId("back").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  addEventListener("hashchange", fromAddress);
  find();
  if (!fromAddress()) open(0);
})();
