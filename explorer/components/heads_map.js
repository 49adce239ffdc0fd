// One head as a heatmap: cells painted once, with an overlay canvas for highlights.

import { axisBox, cellBeside, cellUnder, drawAxes, keyText, labelAt, levelOf, outlineCell, queryLabel, rowLabels } from "./axes.js";
import { clipped, fit, hatching } from "./canvas.js";
import { levels, paintCells, pixelsOf } from "./cells.js";
import { el } from "./dom.js";
import { scrollInto, withEdges } from "./edges.js";
import { percent } from "./numbers.js";
import { css, shades } from "./palette.js";
import { scrollTogether } from "./scrolling.js";

const SUM_ROOM = 52; // px for the row sums
const LINE = 16; // px that a line of a label needs

/** { node, canvas, legend, draw(width), light(lit), reveal(key) } of a panel's head; `panel.cells` are its numbers. */
export function headMap(view, panel) {
  const { queries, keys, words } = view.head;
  const scroller = el("div", "scroller");
  scrollTogether(scroller, "map");
  const stack = el("div", "stack");
  const canvas = el("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const sheet = el("canvas", "sheet");
  sheet.tabIndex = 0;
  sheet.dataset.at = "map" + panel.index;
  sheet.setAttribute("role", "application"); // arrow keys belong to the cells
  sheet.setAttribute("aria-label", `${words.map} ${panel.label}`);
  sheet.setAttribute("aria-describedby", panel.summaryId);
  stack.append(canvas, sheet);
  scroller.append(stack);
  const node = withEdges(scroller);
  const legend = el("div", "legend");
  let box, over;
  let cursor = null;

  function draw(width) {
    const { theme } = view;
    const longest = Math.max(queries.tokens.length, keys.tokens.length);
    // Side by side, show the whole matrix rather than all labels; hover shows these.
    const least = longest > 64 ? 5 : view.compared && width > 300 ? 8 : longest > 40 ? 9 : 18;
    const leastTall = longest > 40 ? 0 : 14;
    box = axisBox(width, queries, keys, theme, { least, leastTall, right: SUM_ROOM * theme.scale, tallest: 600 });
    const context = fit(canvas, box.width, box.height);
    over = fit(sheet, box.width, box.height);
    paint(context, theme);
    drawAxes(context, box, queries, keys, theme);
    drawSums(context, theme);
    drawLegend(theme);
  }

  function paint(context, theme) {
    const { left, above, wide, tall, nQuery, nKey } = box;
    const { weights, blocked } = panel.cells;
    const top = view.chosen.shared ? view.head.top : panel.most;
    const shown = levels(weights, (cell) => blocked[cell], nKey, view.chosen.scale, top);
    const ground = hatching(context, theme.get("blocked"), theme.get("hatch"));
    paintCells(context, shown, [nQuery, nKey], [left, above, nKey * wide, nQuery * tall], pixelsOf(shades(theme)), ground);
    if (tall < 8) return;
    context.fillStyle = theme.get("paper"); // hairlines between the cells
    for (let key = 1; key < nKey; key += 1) context.fillRect(left + key * wide - 0.5, above, 0.5, nQuery * tall);
    for (let query = 1; query < nQuery; query += 1) context.fillRect(left, above + query * tall - 0.5, nKey * wide, 0.5);
  }

  /** The sums of rows, where one is not 100 %. */
  function drawSums(context, theme) {
    const sums = Array.from(panel.sums ?? [], (sum) => percent(sum));
    if (sums.every((sum) => sum === percent(1))) return;
    const right = box.left + box.nKey * box.wide + SUM_ROOM * theme.scale - 6;
    context.textAlign = "right";
    context.fillStyle = theme.get("muted");
    context.font = theme.font(12);
    context.fillText(words.sum, right, box.above - 10, SUM_ROOM * theme.scale - 4);
    for (let query = 0; query < box.nQuery; query += Math.ceil(14 / box.tall)) {
      if (sums[query] !== percent(1)) context.fillText(sums[query], right, box.above + (query + 0.5) * box.tall);
    }
  }

  /** The colour scale with both ends, and the hatching if it occurs. */
  function drawLegend(theme) {
    const bar = el("canvas");
    const context = fit(bar, 120, 10);
    shades(theme).forEach((colour, level) => {
      context.fillStyle = css(colour);
      context.fillRect(level / 255 * 120, 0, 1, 10);
    });
    const about = view.chosen.shared ? "" : panel.near;
    const top = about + percent(view.chosen.shared ? view.head.top : panel.most);
    const [low, high] = {
      linear: ["0 %", top], log: ["≤ 0.01 %", top], rank: [words.weakest, words.strongest],
    }[view.chosen.scale];
    const children = [el("span", "", low), bar, el("span", "", high)];
    if (panel.cells.blocked.some(Boolean)) {
      const swatch = el("canvas", "swatch");
      const pen = fit(swatch, 18, 14);
      pen.fillStyle = hatching(pen, theme.get("blocked"), theme.get("hatch"));
      pen.fillRect(0, 0, 18, 14);
      children.push(swatch, el("span", "", words.blocked));
    }
    legend.replaceChildren(...children);
  }

  /** Dims all but the highlighted row, whose labels become chips. */
  function light({ query, key }) {
    const { theme } = view;
    const { left, above, wide, tall, nQuery, nKey } = box;
    const [right, bottom] = [left + nKey * wide, above + nQuery * tall];
    over.clearRect(0, 0, box.width, box.height);
    if (query === null && key === null) return;
    over.fillStyle = theme.get("paper");
    over.globalAlpha = view.veil;
    if (query !== null) {
      over.fillRect(left, above, right - left, query * tall);
      over.fillRect(left, above + (query + 1) * tall, right - left, (nQuery - query - 1) * tall);
    } else {
      over.fillRect(left, above, key * wide, bottom - above);
      over.fillRect(left + (key + 1) * wide, above, (nKey - key - 1) * wide, bottom - above);
    }
    over.globalAlpha = 1;
    over.strokeStyle = theme.get("accent");
    over.lineWidth = 1.5;
    if (query !== null) over.strokeRect(left - 0.5, above + query * tall - 0.5, right - left + 1, tall + 0.5);
    else over.strokeRect(left + key * wide - 0.5, above - 0.5, wide + 0.5, bottom - above + 1);
    if (query !== null && key !== null) outlineCell(over, box, [query, key], theme.get("accent"), 2.5);
    over.font = theme.font(13, 600);
    over.textBaseline = "middle";
    if (query !== null) lightQuery(theme, query);
    if (key !== null) lightKey(theme, key);
  }

  /** Hides labels that overlap the highlighted one. */
  function lightQuery(theme, query) {
    const { left, above, tall, nQuery } = box;
    const line = LINE * theme.scale;
    const middle = (row) => above + (row + 0.5) * tall;
    over.fillStyle = theme.get("paper");
    for (let row = 0; row < nQuery; row += 1) {
      if (Math.abs(row - query) * tall < line - 1) over.fillRect(20, middle(row) - line / 2, left - 22, line);
    }
    const text = clipped(over, rowLabels(queries)[query], left - 30);
    const width = over.measureText(text).width + 10;
    labelChip(theme, left - width - 3, middle(query), width, Math.min(20 * theme.scale, Math.max(tall, line)));
    queryLabel(over, box, queries, query);
  }

  function lightKey(theme, key) {
    const [x, y] = labelAt(box, key);
    const line = LINE * theme.scale;
    const text = clipped(over, keys.tokens[key], 110 * theme.scale);
    const width = over.measureText(text).width + 10;
    over.fillStyle = theme.get("paper");
    for (let other = 0; other < box.nKey; other += box.every) {
      if (levelOf(box, other) !== levelOf(box, key)) continue;
      const its = over.measureText(keyText(over, box, keys, other)).width;
      const [place] = labelAt(box, other);
      if (Math.abs(place - x) < (its + width) / 2) over.fillRect(place - its / 2 - 2, y - line / 2, its + 4, line);
    }
    labelChip(theme, x - width / 2, y, width, line);
    over.textAlign = "center";
    over.fillText(text, x, y);
  }

  function labelChip(theme, left, middle, width, tall) {
    over.fillStyle = theme.get("accent");
    over.beginPath();
    over.roundRect(left, middle - tall / 2, width, tall, 4);
    over.fill();
    over.fillStyle = theme.get("paper");
  }

  /** Scrolls to a key's column if the matrix is wider than the panel. */
  const reveal = (key) => scrollInto(scroller, box.left + key * box.wide, box.wide);

  const at = (place) => place && { query: place[0], key: place[1], head: panel.index };
  sheet.addEventListener("pointermove", (event) => { cursor = cellUnder(event, box); view.light(at(cursor)); });
  sheet.addEventListener("pointerleave", () => view.light(null));
  sheet.addEventListener("click", (event) => {
    const place = cellUnder(event, box);
    if (place) view.lock(...place);
  });
  sheet.addEventListener("blur", () => view.light(null));
  sheet.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { if (cursor) view.lock(...cursor); }
    else if (event.key.toLowerCase() === "p") view.pin(panel.index);
    else {
      const start = [view.chosen.query ?? 0, view.chosen.key ?? 0];
      const to = cellBeside(event.key, cursor ?? start, box);
      if (!to) return;
      cursor = cursor ? to : start; // the first press only shows the current cell
      view.light(at(cursor));
      view.announce(panel.readout.textContent);
    }
    event.preventDefault();
  });
  return { node, canvas, legend, draw, light, reveal };
}
