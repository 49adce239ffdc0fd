// One open or pinned head: its heatmap, its lines, and both in words.

import { el } from "./dom.js";
import { headLines } from "./heads_lines.js";
import { headMap } from "./heads_map.js";
import { keepPicture } from "./keep.js";
import { percent } from "./numbers.js";

let count = 0; // outside the app several views share one document and need unique ids

/** { node, index, exact, draw(), grow(thumb, before), light(lit), reveal(query, key), mark() } */
export function headPanel(view, index) {
  const { head } = view;
  const { queries, keys, words, measure } = head;
  const nKey = keys.tokens.length;
  const cells = view.cellsOf(index);
  const sums = head.sums?.[index] ?? cells.sums;
  // Until a head's exact cells arrive, its thumbnail gives no row sum and no exact weight.
  const near = cells.exact && !cells.rounded ? "" : head.step > 1 ? "≤ " : "≈ ";
  const most = cells.weights.reduce((max, weight, cell) => (cells.blocked[cell] ? max : Math.max(max, weight)), 0) || 1;
  const panel = { index, label: head.labels[index], cells, near, sums, most, summaryId: `summary-${count += 1}` };
  const keep = el("button", "keep", "↓");
  keep.type = "button";
  keep.setAttribute("aria-label", `${words.keep} ${panel.label}`);
  keep.title = words.keep;
  keep.dataset.at = "keep" + index;
  const measured = measure?.texts[index] ?? null;

  const node = el("section", "panel");
  node.setAttribute("aria-label", panel.label);
  node.setAttribute("aria-busy", String(!cells.exact));
  const title = el("div", "title");
  const close = el("button", "close");
  close.type = "button";
  close.setAttribute("aria-label", `${words.close} ${panel.label}`);
  close.dataset.at = "close" + index;
  close.addEventListener("click", () => view.close(index));
  const pin = pinButton(view, index);
  pin.dataset.at = "pin" + index;
  const about = !cells.rounded ? "" : head.step > 1 ? words.pooled : words.rounded;
  const told = [measured === null ? "" : `${measure.name} ${measured}`, about].filter(Boolean).join(" · ");
  title.append(el("b", "", panel.label), el("span", "caption", told), keep, pin, close);
  panel.readout = el("div", "readout");
  const summary = el("p", "unseen", cells.summary);
  summary.id = panel.summaryId;

  const down = el("button", "down");
  down.type = "button";
  down.dataset.at = "down" + index;
  down.addEventListener("click", () => view.goDown(index, ...offered()));
  const map = headMap(view, panel);
  const lines = headLines(view, panel);
  const [chart, text] = [el("div", "chart"), el("div", "text")];
  chart.append(title, map.node, map.legend, summary);
  if (view.isHead(index)) chart.append(down); // an average has no q and k of its own
  text.append(lines.node, panel.readout);
  node.append(chart, text);

  keep.addEventListener("click", () => keepPicture(
    map.canvas, draw, `${panel.label}${told ? ` · ${told}` : ""}`, view.theme, `${view.head.file}-${panel.label}`));

  function draw() {
    map.draw(chart.clientWidth);
    lines.draw();
    light(view.lit);
  }

  let motion = null;
  /** Lets the map grow out of its thumbnail; in the place of a panel `before` it goes on where that one was. */
  function grow(thumb, before) {
    const isOver = before && before.motion?.playState !== "running";
    if (isOver || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const [from, to] = [thumb, map.node].map((place) => place.getBoundingClientRect());
    const small = `translate(${from.left - to.left}px, ${from.top - to.top}px) scale(${from.width / to.width}, ${from.height / to.height})`;
    const [begin, end] = [small, "none"].map((transform) => ({ transform, transformOrigin: "0 0" }));
    motion = map.node.animate([begin, end], { duration: 320, easing: "ease-out" });
    motion.currentTime = before?.motion.currentTime ?? 0;
  }

  function light(lit) {
    map.light(lit);
    lines.light(lit);
    say(lit);
  }

  const cell = (query, key) => query * nKey + key;
  const value = (query, key) => (cells.blocked[cell(query, key)]
    ? reason(cells.blocked[cell(query, key)]) : near + percent(cells.weights[cell(query, key)]));

  /** One cell in words: query token, key token, and weight. */
  const pair = (query, key, between = " → ") => [
    el("b", "", queries.tokens[query]), between, el("b", "", keys.tokens[key]), " · ",
    el("b", "number", value(query, key))];

  /** The highlight in words: a cell, a query's strongest keys, or a key's strongest queries. */
  function say({ query, key, head: under }) {
    panel.readout.classList.toggle("hover", query === null && key === null);
    const isLocked = under === null && key === null && query !== null && query === view.chosen.query;
    if (isLocked && !view.compared && !head.alone) { // said by the headline
      panel.readout.textContent = "";
      return;
    }
    if (query === null && key === null) { panel.readout.textContent = words.lines_hint; return; }
    if (query !== null && key !== null) {
      panel.readout.replaceChildren(`${words.query} `, ...pair(query, key, ` → ${words.key} `));
      return;
    }
    const [own, other, at] = query !== null ? [queries, keys, query] : [keys, queries, key];
    const beside = (place) => (query !== null ? [query, place] : [place, key]);
    const strongest = other.tokens.map((_, place) => place)
      .filter((place) => !cells.blocked[cell(...beside(place))])
      .sort((a, b) => cells.weights[cell(...beside(b))] - cells.weights[cell(...beside(a))]).slice(0, 4);
    const parts = strongest.flatMap((place, rank) => [
      rank ? ", " : "", el("b", "", other.tokens[place]), " ", el("span", "number", value(...beside(place)))]);
    panel.readout.replaceChildren(
      `${words[query !== null ? "query" : "key"]} `, el("b", "", own.tokens[at]), query !== null ? " → " : " ← ",
      ...(parts.length ? parts : [reason(cells.blocked[cell(...beside(0))])]));
  }

  /** A blocked cell's byte in words: 1 has no reason of its own. */
  const reason = (code) => (code < 2 ? words.blocked : `${words.blocked}: ${cells.reasons[code - 2]}`);

  /** The cell to link to: the selected one, else the strongest of the locked row; null for none. */
  function offered() {
    const { query, key } = view.chosen;
    if (query === null || key !== null) return query === null ? null : [query, key];
    const [start, end] = [query * nKey, (query + 1) * nKey];
    let best = null;
    for (let at = start; at < end; at += 1) {
      if (!cells.blocked[at] && (best === null || cells.weights[at] > cells.weights[best])) best = at;
    }
    return best === null ? null : [query, best - start];
  }

  /** Updates the pin, and the link to one cell, from the selection. */
  function mark() {
    pin.setAttribute("aria-pressed", String(view.chosen.pinned.includes(index)));
    const place = offered();
    down.classList.toggle("none", !place); // keeps its room
    if (place) down.replaceChildren(...pair(...place), el("span", "way", words.down));
  }
  /** Scrolls to a query, and to its cell if one is given. */
  function reveal(query, key) {
    lines.reveal(query);
    if (key !== null) map.reveal(key);
  }

  return { node, index, exact: cells.exact, draw, grow, light, mark, reveal, get motion() { return motion; } };
}

export function pinButton(view, index) {
  const button = el("button", "pin");
  button.type = "button";
  button.setAttribute("aria-label", `${view.head.words.pin} ${view.head.labels[index]}`);
  button.title = `${view.head.words.pin} (P)`;
  button.addEventListener("click", () => view.pin(index));
  return button;
}
