// One head as text: queries above, keys below, a line for each weight.

import { fit, hatching } from "./canvas.js";
import { chip, el, roving } from "./dom.js";
import { scrollInto, withEdges } from "./edges.js";
import { drawLinks } from "./links.js";
import { css, ramp, rgb } from "./palette.js";
import { BLOCKED } from "./payload.js";
import { scrollTogether } from "./scrolling.js";
import { whenSeen } from "./sight.js";

/** Most lines drawn without a highlight, strongest first; a highlighted token shows all its lines. */
const MOST = 600;

/** { node, draw(), light(lit), reveal(query) } of a panel's head. */
export function headLines(view, panel) {
  const [HEIGHT, FOOT] = [124, 9];
  const { queries, keys, least } = view.head;
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];
  const weight = (query, key) => panel.cells.weights[query * nKey + key];
  const level = (query, key) => (panel.cells.blocked[query * nKey + key]
    ? BLOCKED : Math.round(254 * Math.sqrt(Math.min(1, weight(query, key)))));

  const node = el("div", "lines");
  const scroller = el("div", "scroller");
  scrollTogether(scroller, "lines");
  const stage = el("div", "stage");
  const canvas = el("canvas");
  canvas.setAttribute("aria-hidden", "true"); // the readout has the same content as text

  function rowOf(row, name) {
    const line = el("div", "row");
    line.setAttribute("role", "group");
    line.setAttribute("aria-label", `${row.title} ${panel.label}`);
    const chips = row.tokens.map((_, index) => {
      const button = chip(row, index);
      button.dataset.at = `${name}${panel.index}-${index}`;
      const lit = { query: null, key: null, head: panel.index, [name]: index };
      button.addEventListener("pointerenter", () => view.light(lit));
      button.addEventListener("pointerleave", () => view.light(null));
      button.addEventListener("focus", () => { if (button.matches(":focus-visible")) { view.light(lit); view.announce(panel.readout.textContent); } });
      button.addEventListener("blur", () => view.light(null));
      button.addEventListener("click", () => view.lock(lit.query, lit.key));
      line.append(button);
      return button;
    });
    roving(chips, name === "query" ? view.chosen.query ?? 0 : 0,
      (key, index) => ({ ArrowLeft: index - 1, ArrowRight: index + 1 }[key]));
    return { line, chips };
  }
  const above = rowOf(queries, "query");
  const below = rowOf(keys, "key");
  const resting = el("canvas"); // all lines, drawn once, shown without a highlight
  let colours, ink, ground, context;
  let links = []; // all lines without a highlight, the strongest last
  // A row of a thousand tokens is wider than a canvas may be, and a line across it takes a browser
  // 20 ms: so lines are drawn where they are in sight, and half as far again on both sides.
  let [from, width] = [0, 0];
  const shown = { query: null, key: null, queryLocked: undefined, keyLocked: undefined };

  /** Reserves its space at once, and draws when in sight: lines are the slowest part. */
  function draw() {
    context = null;
    canvas.style.height = HEIGHT + "px";
    whenSeen([node], () => { measure(); light(view.lit); });
  }

  function measure() {
    colours = ramp(view.theme);
    ink = rgb(view.theme.get("accent"));
    for (const row of [above, below]) {
      row.middles = row.chips.map(({ offsetLeft, offsetWidth }) => offsetLeft + offsetWidth / 2);
      row.widths = row.chips.map(({ offsetWidth }) => offsetWidth);
    }
    links = [];
    for (let query = 0; query < nQuery; query += 1) for (let key = 0; key < nKey; key += 1) add(links, query, key);
    links.sort((a, b) => a[0] - b[0]);
    cover();
  }

  /** Draws the unhighlighted lines around the visible part. */
  function cover() {
    const [all, room] = [stage.clientWidth, scroller.clientWidth];
    width = Math.min(all, 2 * room);
    from = Math.max(0, Math.min(all - width, scroller.scrollLeft - room / 2));
    canvas.style.marginLeft = from + "px";
    const rest = fit(resting, width, HEIGHT);
    context = fit(canvas, width, HEIGHT);
    ground = hatching(context, view.theme.get("blocked"), view.theme.get("hatch"));
    for (const each of [rest, context]) each.translate(-from, 0);
    drawLinks(rest, links.filter(crosses).slice(-MOST), HEIGHT, ink, false);
  }

  const crosses = ([, start, end]) => Math.max(start, end) >= from && Math.min(start, end) <= from + width;

  scroller.addEventListener("scroll", () => {
    if (!context) return;
    const [first, last] = [scroller.scrollLeft, scroller.scrollLeft + scroller.clientWidth];
    if (first >= from && (last <= from + width || from + width >= stage.clientWidth)) return;
    cover();
    light(view.lit);
  });

  function add(found, query, key) {
    const strength = weight(query, key);
    if (strength >= least && level(query, key) !== BLOCKED) {
      found.push([strength, above.middles[query], below.middles[key]]);
    }
  }

  /** The lines of the highlighted token, or all lines if none is. */
  function light({ query, key }) {
    follow(above.chips, "query", query);
    follow(below.chips, "key", key);
    if (!context) return; // not drawn yet
    const own = [];
    context.clearRect(from, 0, width, HEIGHT);
    if (query !== null) for (let k = 0; k < nKey; k += 1) add(own, query, k);
    else if (key !== null) for (let q = 0; q < nQuery; q += 1) add(own, q, key);
    else context.drawImage(resting, from, 0, width, HEIGHT);
    own.sort((a, b) => a[0] - b[0]);
    drawLinks(context, own.filter(crosses), HEIGHT, ink, true);
    if (query !== null) feet(below, HEIGHT - FOOT, (k) => level(query, k));
    else if (key !== null) feet(above, 0, (q) => level(q, key));
  }

  /** A strip at each chip in the colour of its weight, hatched where blocked. */
  function feet({ middles, widths }, edge, codeOf) {
    middles.forEach((middle, index) => {
      if (!crosses([0, middle - widths[index], middle + widths[index]])) return;
      const value = codeOf(index);
      context.fillStyle = value === BLOCKED ? ground : css(colours[value]);
      context.fillRect(middle - widths[index] / 2, edge, widths[index], FOOT);
    });
  }

  /** Updates only the changed chips: with many tokens, restyling is slow. */
  function follow(chips, axis, index) {
    const locked = view.chosen[axis];
    if (shown[axis] === index && shown[axis + "Locked"] === locked) return;
    chips[shown[axis]]?.classList.remove("lit");
    chips[index]?.classList.add("lit");
    if (shown[axis + "Locked"] !== locked) {
      chips.forEach((button, other) => {
        button.setAttribute("aria-pressed", String(other === locked));
        button.classList.toggle("selected", other === locked);
      });
    }
    Object.assign(shown, { [axis]: index, [axis + "Locked"]: locked });
  }

  /** Scrolls to a query if the row is longer than the panel. */
  function reveal(query) {
    const { offsetLeft, offsetWidth } = above.chips[query];
    scrollInto(scroller, offsetLeft, offsetWidth);
  }

  stage.append(above.line, canvas, below.line);
  scroller.append(stage);
  node.append(withEdges(scroller));
  return { node, draw, light, reveal };
}
