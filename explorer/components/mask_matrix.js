import { axisBox, cellBeside, cellUnder, drawAxes, outlineCell } from "./axes.js";
import { fit, hatching } from "./canvas.js";
import { el, rebuild, redraws } from "./dom.js";
import { keepScrolled, scrollInto, withEdges } from "./edges.js";
import { keepPicture } from "./keep.js";
import { legendEntry } from "./legend.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

/**
 * One mask: open cells are white, each rule has its own hatching; a click or Enter picks a cell.
 * With a brush, a click or a drag paints: all cells of a stroke become the opposite of the first.
 */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { queries, keys, words, brush } = head;
  const hint = brush ? words.brush : words.hint;
  const cells = arrays.cells;
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];

  const scroller = el("div", "scroller");
  const canvas = el("canvas");
  canvas.dataset.at = "matrix";
  canvas.tabIndex = 0;
  canvas.classList.toggle("brush", brush);
  canvas.setAttribute("role", "application"); // arrow keys belong to the matrix
  canvas.setAttribute("aria-label", `${head.title}. ${hint}`);
  scroller.append(canvas);
  const readout = el("div", "readout", hint);
  readout.setAttribute("aria-live", "polite");
  const legend = el("div", "legend");
  const keep = el("button", "keep", "PNG");
  keep.type = "button";
  keep.title = words.keep;
  keep.setAttribute("aria-label", `${words.keep}: ${head.title}`);
  keep.dataset.at = "keep";
  keep.onclick = () => keepPicture(canvas, () => draw(root.clientWidth), head.title, theme, head.file, meanings());
  const foot = el("div", "foot");
  foot.append(legend, keep);

  const byFinger = matchMedia("(pointer: coarse)").matches;
  const least = byFinger ? (nKey > 40 ? 9 : 18) : 4; // a mouse can hit small cells

  let theme, box, fills;
  let cursor = null;
  let selected = head.selected;
  let stroke = null; // what is being painted; stays drawn until the answer comes

  function draw(width) {
    theme = followTheme(root);
    box = axisBox(width, queries, keys, theme, { least });
    const context = fit(canvas, box.width, box.height);
    fills = head.rules.map((_, rule) => (
      hatching(context, theme.get("rules-" + rule), theme.get("rule-marks-" + rule), rule)));
    drawCells(context);
    drawAxes(context, box, queries, keys, theme, cursor ?? undefined);
    drawStroke(context);
    outlineCell(context, box, selected, theme.get("accent"), 2.5);
    outlineCell(context, box, cursor, theme.get("ink"), 1.5);
    drawLegend();
  }

  function drawCells(context) {
    const { left, above, wide, tall } = box;
    context.fillStyle = theme.get("line"); // shows through the gaps as hairlines
    context.fillRect(left - 1, above - 1, nKey * wide + 1, nQuery * tall + 1);
    for (let query = 0; query < nQuery; query += 1) {
      for (let key = 0; key < nKey; key += 1) {
        const rule = cells[query * nKey + key];
        context.fillStyle = rule ? fills[rule - 1] : theme.get("paper");
        context.fillRect(left + key * wide, above + query * tall, wide - 1, tall - 1);
      }
    }
  }

  /** The current stroke: white for opened cells, hatching in the accent colour for blocked ones. */
  function drawStroke(context) {
    if (!stroke) return;
    context.fillStyle = stroke.open
      ? theme.get("paper") : hatching(context, theme.get("paper"), theme.get("accent"), 3);
    for (const cell of stroke.cells) {
      const [query, key] = [Math.floor(cell / nKey), cell % nKey];
      context.fillRect(box.left + key * box.wide, box.above + query * box.tall, box.wide - 1, box.tall - 1);
      outlineCell(context, box, [query, key], theme.get("accent"), 1.5);
    }
  }

  /** The legend as [words, fill of a swatch], without rules that block nothing. */
  function meanings() {
    const entry = (text, fill) => [text, (context) => {
      context.fillStyle = fill(context);
      context.fillRect(0, 0, 18, 18);
      context.strokeStyle = theme.get("line");
      context.strokeRect(0.5, 0.5, 17, 17);
    }];
    const present = head.rules.map((rule, index) => cells.includes(index + 1) && entry(rule, (context) => (
      hatching(context, theme.get("rules-" + index), theme.get("rule-marks-" + index), index))));
    return [entry(words.open, () => theme.get("paper")), ...present.filter(Boolean)];
  }

  function drawLegend() {
    legend.replaceChildren(...meanings().map(([text, paint]) => legendEntry(text, [18, 18], paint)));
  }

  function say() {
    if (!cursor) { readout.textContent = hint; return; }
    const [query, key] = cursor;
    const rule = cells[query * nKey + key];
    readout.replaceChildren(
      `${words.query} `, el("b", "", queries.tokens[query]), ` → ${words.key} `,
      el("b", "", keys.tokens[key]), " · ",
      el("b", "", rule ? `${words.blocked}: ${head.rules[rule - 1]}` : words.open),
    );
  }

  function move(at) {
    if (String(at) === String(cursor)) return;
    cursor = root.cursor = at;
    draw(root.clientWidth);
    say();
  }

  function pick(at) {
    if (!at) return;
    selected = at;
    draw(root.clientWidth);
    setTriggerValue("picked", at);
  }

  function begin(at, pointer = null) {
    if (!at) return;
    const open = cells[at[0] * nKey + at[1]] > 0;
    stroke = root.stroke = { open, cells: new Set(), pointer, nQuery, nKey };
    if (pointer !== null) canvas.setPointerCapture(pointer); // until it is released, also outside
    extend(at, at);
  }

  /** A fast pointer skips cells: paint all on the straight line between two of them. */
  function extend(from, to) {
    const steps = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]), 1);
    for (let step = 0; step <= steps; step += 1) {
      const [query, key] = [0, 1].map((axis) => Math.round(from[axis] + (to[axis] - from[axis]) * step / steps));
      stroke.cells.add(query * nKey + key);
    }
    draw(root.clientWidth);
  }

  function finish() {
    if (!stroke || stroke.sent) return;
    stroke.sent = true;
    root.stroke = null;
    const flat = [...stroke.cells].flatMap((cell) => [Math.floor(cell / nKey), cell % nKey]);
    setTriggerValue("painted", { cells: flat, open: stroke.open });
  }

  function point(event) {
    const at = cellUnder(event, box);
    if (stroke && !stroke.sent && at && event.buttons) extend(cursor ?? at, at);
    move(at);
  }

  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerleave", () => move(null));
  if (brush) {
    canvas.addEventListener("pointerdown", (event) => {
      move(cellUnder(event, box));
      begin(cursor, event.pointerId);
    });
    canvas.addEventListener("pointerup", finish);
    canvas.addEventListener("pointercancel", () => { stroke = root.stroke = null; draw(root.clientWidth); });
  } else {
    canvas.addEventListener("click", (event) => pick(cellUnder(event, box)));
  }
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      if (brush) { begin(cursor); finish(); } else pick(cursor);
    }
    else {
      const to = cellBeside(event.key, cursor ?? selected ?? [0, 0], box);
      if (!to) return;
      move(cursor ? to : selected ?? [0, 0]); // the first press only shows the current cell
      scrollInto(scroller, box.left + cursor[1] * box.wide, box.wide);
    }
    event.preventDefault();
  });

  // A new payload keeps the keyboard's place, as long as that place still exists, and the stroke that
  // is just being painted: the answer to the one before may arrive in its middle.
  if (root.cursor && root.cursor[0] < nQuery && root.cursor[1] < nKey) cursor = root.cursor;
  if (brush && root.stroke?.nQuery === nQuery && root.stroke.nKey === nKey) stroke = root.stroke;
  root.stroke = stroke; // drop a stroke of an older matrix
  const scrollBack = keepScrolled(root, scroller);
  rebuild(root, withEdges(scroller), foot, readout);
  if (stroke) canvas.setPointerCapture(stroke.pointer);
  say();
  const stop = redraws(root, draw);
  scrollBack();
  return stop;
}
