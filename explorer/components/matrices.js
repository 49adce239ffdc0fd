import { axisBox, cellBeside, cellUnder, outlineCell } from "./axes.js";
import { fit, hatching } from "./canvas.js";
import { el, rebuild, redraws } from "./dom.js";
import { keepPlace, scrollInto, withEdges } from "./edges.js";
import { keepPicture } from "./keep.js";
import { legendEntry } from "./legend.js";
import { BLANK, looks } from "./matrix.js";
import { digits } from "./numbers.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

const KEEP = 60; // px for the button in the row of the legend
const ROOMY = 40; // px of a cell with a word
const MOST_SMALL = 12; // columns of a matrix of numbers that needs little room

/**
 * Matrices side by side; hover or the arrow keys describe a cell, a click or Enter picks it. With a
 * brush, a click or a drag paints: all cells of a stroke become the opposite of the first.
 */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const line = (root.line ??= []); // strokes of one matrix after another that Python has not got yet
  const sendNext = () => {
    clearTimeout(root.waits);
    root.sent = line.shift();
    root.waits = root.sent && setTimeout(sendNext, 3000);
    if (root.sent) setTriggerValue("painted", root.sent);
  };
  if (root.waits) sendNext(); // of several messages in one run, Streamlit keeps the last
  const send = (name, value) => {
    if (name !== "painted") { setTriggerValue(name, value); return; }
    const last = line.at(-1);
    if (last?.matrix === value.matrix && last.open === value.open) last.cells.push(...value.cells);
    else line.push(value);
    if (!root.waits) sendNext();
  };
  const group = el("div", "panels");
  const isSmall = ({ columns }) => columns.numbered && columns.tokens.length <= MOST_SMALL;
  group.classList.toggle("small", head.panels.every(isSmall));
  const panels = head.panels.map((own, at) => panel(root, at, own, head, {
    cells: arrays["cells" + at],
    said: arrays["said" + at] && new Uint16Array(arrays["said" + at].slice().buffer),
    written: arrays["written" + at] && new Uint16Array(arrays["written" + at].slice().buffer),
    numbers: arrays["numbers" + at] && new Float32Array(arrays["numbers" + at].slice().buffer),
  }, send));
  group.append(...panels.map((each) => each.node));
  rebuild(root, group);
  const stop = redraws(root, () => {
    const theme = followTheme(root);
    panels.forEach((each) => each.draw(theme));
  });
  panels.forEach((each) => each.enter());
  return stop;
}

/** { node, enter(), draw(theme) } of one matrix. */
function panel(root, at, own, head, { cells, said, written, numbers }, send) {
  const { rows, columns } = own;
  const { words, brush } = head;
  const [nRows, nColumns] = [rows.tokens.length, columns.tokens.length];
  const inside = (cell) => (cell && cell[0] < nRows && cell[1] < nColumns ? cell : null);
  // A new payload keeps the keyboard's place, and the stroke that is just being painted: the answer
  // to the one before may arrive in its middle.
  const kept = (root.kept ??= {});
  const last = (kept[at] ??= { cursor: null, stroke: null, scrolled: 0 });
  let cursor = inside(last.cursor);
  let stroke = brush && last.stroke?.nRows === nRows && last.stroke.nColumns === nColumns ? last.stroke : null;
  last.stroke = stroke; // drop a stroke of an older matrix
  let theme, box, look;

  const node = el("section", "panel");
  node.setAttribute("aria-label", own.title);
  const scroller = el("div", "scroller");
  const canvas = el("canvas");
  canvas.dataset.at = "cells" + at;
  canvas.tabIndex = 0;
  canvas.classList.toggle("picks", head.picks);
  canvas.classList.toggle("brush", brush);
  canvas.setAttribute("role", "application"); // arrow keys belong to the cells
  canvas.setAttribute("aria-label", `${own.title}. ${words.hint}`);
  scroller.append(canvas);
  const keep = el("button", "keep", "↓");
  keep.type = "button";
  keep.title = words.keep;
  keep.setAttribute("aria-label", `${words.keep}: ${own.title}`);
  keep.dataset.at = "png" + at;
  keep.onclick = () => keepPicture(canvas, paint, own.title, theme, own.file, [...look.ticks(), ...look.meanings()]);
  const legend = el("div", "legend");
  const foot = el("div", "foot");
  foot.append(legend, keep);
  const readout = el("div", "readout hover");
  readout.setAttribute("aria-live", "polite");
  const caption = head.captioned ? [el("div", "caption", own.title)] : [];
  node.append(...caption, withEdges(scroller), foot, readout);

  function draw(now) {
    theme = now;
    look = looks(own, cells, theme);
    paint();
    drawLegend();
    say();
  }

  function paint() {
    const byFinger = matchMedia("(pointer: coarse)").matches;
    const few = byFinger ? (nColumns > 40 ? 9 : 18) : 4; // a mouse can hit small cells
    const least = columns.numbered ? 1 : few;
    const [leastWide, leastTall] = [Math.max(own.least[0] * theme.scale, least), own.least[1] * theme.scale];
    const tallest = own.scale ? 480 : 640;
    box = axisBox(node.clientWidth - 6, rows, columns, theme, { least, leastWide, leastTall, tallest, roomy: own.least[0] > ROOMY });
    const context = fit(canvas, box.width, box.height);
    look.paint(context, box, rows, columns, cursor ?? undefined);
    look.write(context, box, written);
    look.mark(context, box);
    drawStroke(context);
    outlineCell(context, box, cursor, theme.get("ink"), 1.5);
  }

  /** The current stroke: white for opened cells, hatching in the accent colour for blocked ones. */
  function drawStroke(context) {
    const waiting = [root.sent, ...root.line].filter((each) => each?.matrix === at)
      .map(({ open, cells: flat }) => ({ open, cells: flat.filter((_, place) => place % 2 === 0).map((row, place) => row * nColumns + flat[2 * place + 1]) }));
    for (const { open, cells: painted } of [...waiting, ...(stroke ? [stroke] : [])]) for (const cell of painted) {
      const [row, column] = [Math.floor(cell / nColumns), cell % nColumns];
      context.fillStyle = open ? theme.get("paper") : hatching(context, theme.get("paper"), theme.get("accent"), 3);
      context.fillRect(box.left + column * box.wide, box.above + row * box.tall, box.wide - 1, box.tall - 1);
      outlineCell(context, box, [row, column], theme.get("accent"), 1.5);
    }
  }

  function drawLegend() {
    const next = head.panels[at + 1];
    const isSame = next && JSON.stringify(next.scale) === JSON.stringify(own.scale);
    const earlier = new Set(head.panels.slice(0, at).flatMap((other) => other.meanings ?? []));
    const meanings = look.meanings().filter(([text]) => !earlier.has(text)); // each once
    own.meanings = meanings.map(([text]) => text);
    if (isSame && own.scale && !meanings.length) return; // below the last one
    const children = meanings.map(([text, swatch]) => legendEntry(text, [18, 18], swatch));
    if (own.scale?.ticks.length) {
      const bar = el("canvas");
      look.bar(bar, node.clientWidth - KEEP * theme.scale);
      bar.setAttribute("role", "img");
      bar.setAttribute("aria-label", `${own.scale.title}: ${own.scale.ticks.map(([, label]) => label).join(", ")}`);
      children.unshift(el("span", "caption", own.scale.title), bar);
    }
    legend.replaceChildren(...children);
  }

  function say() {
    if (!cursor) { readout.textContent = brush && !at ? words.hint : ""; return; }
    const [row, column] = cursor;
    const cell = row * nColumns + column;
    const rule = Math.max(cells[cell] - BLANK, 0);
    let text = own.texts[rule];
    if (said) text = own.texts[said[cell]];
    else if (numbers && !rule) text = digits(numbers[cell]);
    const place = (axis, index, before) => (axis.tokens[index]
      ? [`${before}${axis.name} `, el("b", "", axis.tokens[index])] : []);
    const named = place(rows, row, "");
    const to = rows.name === rows.title ? " · " : " → ";
    const parts = [...named, ...place(columns, column, named.length ? to : "")];
    readout.replaceChildren(...parts, parts.length ? " · " : "", el("b", "number", text.replaceAll("\n", " · ")));
  }

  function move(to) {
    if (String(to) === String(cursor)) return;
    cursor = last.cursor = to;
    paint();
    say();
  }

  function pick(cell) {
    if (!head.picks || !cell) return;
    if (!own.scale) own.selected = cell; // at once
    paint();
    send("picked", [at, ...cell]);
  }

  function begin(cell, pointer = null) {
    if (!cell) return;
    const open = cells[cell[0] * nColumns + cell[1]] > BLANK;
    stroke = last.stroke = { open, cells: new Set(), pointer, nRows, nColumns };
    if (pointer !== null) canvas.setPointerCapture(pointer); // until it is released, also outside
    extend(cell, cell);
  }

  /** A fast pointer skips cells: paint all on the straight line between two of them. */
  function extend(from, to) {
    const steps = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]), 1);
    for (let step = 0; step <= steps; step += 1) {
      const [row, column] = [0, 1].map((axis) => Math.round(from[axis] + (to[axis] - from[axis]) * step / steps));
      stroke.cells.add(row * nColumns + column);
    }
    paint();
  }

  function finish() {
    if (!stroke || stroke.sent) return;
    stroke.sent = true;
    last.stroke = null;
    const flat = [...stroke.cells].flatMap((cell) => [Math.floor(cell / nColumns), cell % nColumns]);
    send("painted", { matrix: at, cells: flat, open: stroke.open });
  }

  canvas.addEventListener("pointermove", (event) => {
    const cell = cellUnder(event, box);
    if (stroke && !stroke.sent && cell && event.buttons) extend(cursor ?? cell, cell);
    move(cell);
  });
  canvas.addEventListener("pointerdown", (event) => { // a finger points at once
    move(cellUnder(event, box));
    if (brush) begin(cursor, event.pointerId);
  });
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") move(null); });
  if (brush) {
    canvas.addEventListener("pointerup", finish);
    canvas.addEventListener("pointercancel", () => { stroke = last.stroke = null; paint(); });
  } else canvas.addEventListener("click", (event) => pick(cellUnder(event, box)));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      if (brush) { begin(cursor); finish(); } else pick(cursor);
    } else {
      const start = inside(own.selected?.map((place) => place ?? 0)) ?? [0, 0];
      const to = cellBeside(event.key, cursor ?? start, box);
      if (!to) return;
      move(cursor ? to : start); // the first press only shows the current cell
      scrollInto(scroller, box.left + cursor[1] * box.wide, box.wide);
    }
    event.preventDefault();
  });

  /** Call this once the panel is drawn in the document, where it has a scroll position. */
  function enter() {
    const place = last.scrolled;
    keepPlace(scroller, last);
    if (place) scroller.scrollLeft = place;
    if (stroke && stroke.pointer !== null) canvas.setPointerCapture(stroke.pointer);
  }
  return { node, enter, draw };
}
