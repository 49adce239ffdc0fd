import { el, rebuild, redraws } from "./dom.js";
import { headsBar } from "./heads_bar.js";
import { headPanel } from "./heads_panel.js";
import { headsPicture } from "./heads_picture.js";
import { headThumbs } from "./heads_thumbs.js";
import { hold } from "./held.js";
import { percent } from "./numbers.js";
import { followTheme } from "./palette.js";
import { BLOCKED, halvesOf, unpack, weightOf } from "./payload.js";

/**
 * All heads, the opened ones and their text, linked: what is lit in one place is lit in all.
 * Streamlit runs this again for every payload. The view outlives that, as long as the thumbnails
 * are the same; its choices are the browser's own, and Python hears of them.
 */
export default function ({ parentElement, data, setTriggerValue, plays = false }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  head.alone ||= plays; // on a page of its own no exact cells will come, so all others are rounded
  const theme = followTheme(root);
  const likeness = JSON.stringify([{ ...head, chosen: null, arrays: null, top: null }, root.hasAttribute("data-dark")]);
  const old = root.view;
  const same = old?.likeness === likeness;
  if (!hold(head, arrays)) { setTriggerValue("lost", head.small); return root.stop; }
  if (!same) root.view = headsView(root, head, arrays, theme, likeness, old);
  root.view.send = setTriggerValue;
  root.classList.remove("waiting");
  root.view.receive(head.chosen, arrays);
  if (!same) root.view.start();
  return root.stop;
}

// How far the rest steps back behind a row: what is only locked leaves it to be read, and from the
// back of a classroom nothing pale can be read.
const LOCKED = (theme) => (theme.scale > 1 ? 0 : 0.2);
const HOVERED = (theme) => (theme.scale > 1 ? 0.3 : 0.55);

function headsView(root, head, arrays, theme, likeness, old) {
  const { words } = head;
  const view = {
    head, arrays, theme, likeness,
    chosen: { opened: null, pinned: [], query: null, key: null, ...head.chosen },
    turn: old?.turn ?? 0,
    veil: LOCKED(theme),
    compared: false,
    sieve: old?.head.layers === head.layers ? old.sieve : {}, // keep search, folding and enlargement
  };
  const exact = new Map(); // flat index of a head -> its cells, with the digits that the model computed
  const free = { query: null, key: null, head: null };
  let hovered = null;
  let panels = [];
  view.lit = free;

  const nodes = { readout: el("div", "readout hover"), panels: el("div", "panels") };
  const live = el("div", "unseen");
  live.setAttribute("aria-live", "polite");
  const left = el("div", "left");
  const body = el("div", "body");
  view.picture = head.picture && headsPicture(view, old);
  const change = (what) => { const before = view.chosen; choose(what); recolour(before); };
  const ask = (name) => { root.classList.add("waiting"); view.send("asked", name); };
  const bar = headsBar(view, change, ask, () => redraw(root.clientWidth, true));
  const thumbs = headThumbs(view);
  view.codeAt = thumbs.codeAt;
  left.append(thumbs.tools, ...(view.picture ? [view.picture.node] : []), thumbs.node, nodes.readout);
  body.append(left, nodes.panels);

  view.announce = (text) => { live.textContent = text; };

  /** A head's exact cells if they have arrived, else the values of its thumbnail. */
  view.cellsOf = (index) => {
    if (exact.has(index)) return exact.get(index);
    const [nQuery, nKey] = [head.queries.tokens.length, head.keys.tokens.length];
    const cells = { weights: new Float32Array(nQuery * nKey), blocked: new Uint8Array(nQuery * nKey), reasons: [], summary: "", exact: head.alone, rounded: head.alone };
    for (let query = 0; query < nQuery; query += 1) {
      for (let key = 0; key < nKey; key += 1) {
        const code = thumbs.codeAt(index, query, key);
        if (code === BLOCKED) cells.blocked[query * nKey + key] = 1;
        else cells.weights[query * nKey + key] = weightOf(code);
      }
    }
    return cells;
  };

  view.light = (next) => {
    const lit = next ?? { ...view.chosen, head: null };
    if (lit.query === view.lit.query && lit.key === view.lit.key && lit.head === view.lit.head) return;
    hovered = next;
    view.veil = next ? HOVERED(theme) : LOCKED(theme);
    view.lit = { query: lit.query, key: lit.key, head: lit.head };
    shine();
  };

  function shine() {
    thumbs.light(view.lit);
    view.picture?.light();
    panels.forEach((panel) => panel.light(view.lit));
    say();
  }

  /** Shows the cell under the pointer below the grid. */
  function say() {
    const { query, key, head: index } = view.lit;
    if (index === null || query === null || key === null) { nodes.readout.textContent = ""; return; }
    const code = thumbs.codeAt(index, query, key);
    const known = exact.get(index)?.weights[query * head.keys.tokens.length + key];
    const about = head.step > 1 ? "≤ " : "≈ ";
    nodes.readout.replaceChildren(
      el("b", "", head.labels[index]), ` · ${words.query} `, el("b", "", head.queries.tokens[query]),
      ` → ${words.key} `, el("b", "", head.keys.tokens[key]), " · ",
      el("b", "number", code === BLOCKED ? words.blocked : known === undefined ? about + percent(weightOf(code)) : percent(known)));
  }

  /** Whether this is a head of the model, not an aggregate. */
  view.isHead = (index) => index < head.layers * head.columns;
  const addressOf = (index) => [Math.min(head.layers, Math.floor(index / head.columns)),
    view.isHead(index) ? index % head.columns : index - head.layers * head.columns];

  /** Applies a choice at once, and sends it to Python. */
  function choose(choices) {
    view.chosen = { ...view.chosen, ...choices };
    view.turn += 1;
    settle();
    const { opened, pinned, query, key, scale, shared, by_measure } = view.chosen;
    view.send("picked", {
      opened: opened === null ? null : addressOf(opened), pinned: pinned.map(addressOf), query,
      key: query === null ? null : key, scale, shared, by_measure, turn: view.turn,
      held: head.small,
    });
  }

  /** Opens the page Attention score. */
  view.goDown = (index, query, key) => view.send("down", [...addressOf(index), query, key]);

  view.find = (index) => choose({ opened: index });
  view.open = (index) => view.find(view.chosen.opened === index ? null : index);
  view.close = (index) => {
    choose({
      opened: view.chosen.opened === index ? null : view.chosen.opened,
      pinned: view.chosen.pinned.filter((other) => other !== index),
    });
    root.querySelector(`[data-at="head${index}"]`)?.focus({ preventScroll: true });
  };
  view.pin = (index) => {
    const { pinned } = view.chosen;
    choose({ pinned: pinned.includes(index) ? pinned.filter((other) => other !== index) : [...pinned, index].slice(-head.most) });
  };
  /** Locks a row, a column, or a cell by both; a second call unlocks it. */
  view.lock = (query, key) => {
    const locked = view.chosen.query === query && view.chosen.key === key;
    choose(locked ? { query: null, key: null } : { query, key });
    const named = [head.queries.tokens[query], head.keys.tokens[key]].filter((token) => token !== undefined);
    view.announce(`${named.join(" → ")} ${locked ? words.free : words.locked}`);
  };

  root.onkeydown = (event) => {
    if (event.key !== "Escape" || (view.chosen.query === null && view.chosen.key === null)) return;
    choose({ query: null, key: null });
    view.announce(words.free);
  };

  /** A payload's choices, unless the browser already has newer ones. */
  view.receive = (chosen, sent) => {
    const size = head.queries.tokens.length * head.keys.tokens.length;
    chosen.shown.forEach((index, place) => {
      const [start, end] = [place * size, (place + 1) * size];
      const rows = head.queries.tokens.length * 8;
      exact.set(index, {
        weights: head.digits ? Float32Array.from(sent.exact.subarray(start, end), (code) => head.digits[code])
          : halvesOf(sent.exact.subarray(start * 2, end * 2)),
        sums: new Float64Array(sent.sums.slice(place * rows, (place + 1) * rows).buffer),
        blocked: sent.blocked.slice(place * size, (place + 1) * size),
        reasons: chosen.reasons, summary: chosen.summaries[place], exact: true,
      });
    });
    const turn = chosen.turn ?? 0;
    if (turn < view.turn) { settle(); return; } // packed before Python heard of the newest choice
    view.turn = turn;
    const { opened, pinned, query, scale, shared, by_measure } = chosen;
    const before = view.chosen;
    // A locked column exists in the browser only: Python stores rows and their cells.
    const key = query === null && before.query === null ? before.key : chosen.key;
    view.chosen = { opened, pinned, query, key, scale, shared, by_measure };
    settle();
    recolour(before);
  };

  /** Updates panels and marks from the selection. */
  function settle() {
    const { opened, pinned, query } = view.chosen;
    const shown = opened === null || pinned.includes(opened) ? pinned : [...pinned, opened];
    const kept = new Map(panels.map((panel) => [panel.index, panel]));
    const before = panels;
    const stays = (panel) => panel && (panel.exact || !exact.has(panel.index));
    panels = shown.map((index) => (stays(kept.get(index)) ? kept.get(index) : headPanel(view, index)));
    view.compared = shown.length > 1;
    if (!hovered) view.lit = { ...free, query, key: view.chosen.key };
    const changed = panels.length !== before.length || panels.some((panel, place) => panel !== before[place]);
    thumbs.mark();
    bar.mark();
    panels.forEach((panel) => panel.mark());
    if (changed && view.drawn) {
      rebuild(nodes.panels, ...panels.map(({ node }) => node));
      redraw(root.clientWidth, Math.min(before.length, 2) !== Math.min(panels.length, 2));
      for (const panel of panels) if (panel !== kept.get(panel.index)) panel.grow(root.querySelector(`[data-at="head${panel.index}"]`), kept.get(panel.index));
    }
    if (!view.drawn) return;
    shine();
    reveal();
  }

  /** Scrolls to the selection if it is out of sight. */
  function reveal() {
    const { query, key } = view.chosen;
    if (query !== null) panels.forEach((panel) => panel.reveal(query, key));
  }

  /** Thumbnails next to one large head if both fit, else above it; many are below it, which stays in sight. */
  function redraw(width, withThumbs) {
    const beside = panels.length === 1 && width >= 960 && head.columns * (thumbs.many ? 28 : 62) <= (width - 28) / 2;
    body.classList.toggle("beside", beside);
    body.classList.toggle("below", panels.length === 1 && !beside && thumbs.many);
    body.classList.toggle("many", thumbs.many);
    nodes.panels.style.setProperty("--columns", Math.max(1, Math.min(panels.length, Math.floor(width / 340))));
    if (withThumbs) thumbs.draw(left.clientWidth, beside ? 120 : panels.length > 1 ? 76 : panels.length ? 92 : 148);
    view.picture?.draw(left.clientWidth);
    panels.forEach((panel) => panel.draw());
  }

  /** Redraws the parts whose colours or order differ from `before`. */
  function recolour(before) {
    if (!view.drawn) return;
    const { scale, shared, by_measure } = view.chosen;
    bar.show(view.chosen);
    if (scale !== before.scale || shared !== before.shared) {
      for (const part of [thumbs, view.picture]) part?.repaint();
      panels.forEach((panel) => panel.draw());
    }
    if (by_measure !== before.by_measure) thumbs.arrange();
  }

  view.start = () => {
    nodes.panels.replaceChildren(...panels.map(({ node }) => node));
    thumbs.arrange();
    rebuild(root, bar.node, body, live);
    view.drawn = true;
    redraws(root, (width) => { redraw(width, true); shine(); reveal(); });
  };
  return view;
}
