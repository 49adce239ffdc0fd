// The grid of all heads, painted once on sheets behind it; what is lit is drawn on one veil over it.

import { fit, hatching, scratch } from "./canvas.js";
import { levels, paintCells, pixelsOf } from "./cells.js";
import { el } from "./dom.js";
import { pinButton } from "./heads_panel.js";
import { sheetsBehind } from "./heads_sheets.js";
import { acrossOf, headNumbers, headSieve, isTiny } from "./heads_sieve.js";
import { shades } from "./palette.js";
import { BLOCKED, placesOf, weightOf } from "./payload.js";
import { isInSight, whenSeen } from "./sight.js";

const MAX_SIDE = 64; // as in heads_payload.py
const CODED = Float32Array.from({ length: 256 }, (_, code) => weightOf(code)); // the weight of each byte
const NUMBERS = 30; // px for the number of a layer, in front of its row
const TALLEST = 12000; // px that a canvas may measure in every browser

/** All heads as thumbnails: { node, tools, many, draw(width, most side), repaint(), arrange(), mark(), light(lit) }. */
export function headThumbs(view) {
  const { head, arrays } = view;
  const { queries, keys, labels, step, measure, words } = head;
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];
  const [rows, columns] = [Math.ceil(nQuery / step), Math.ceil(nKey / step)];
  const sent = placesOf(arrays.open, rows * columns); // the other pixels are blocked in every head
  const rank = new Int32Array(rows * columns).fill(-1);
  sent.forEach((pixel, place) => { rank[pixel] = place; });
  const codeOf = (index, pixel) => (rank[pixel] < 0 ? BLOCKED : arrays.cells[index * sent.length + rank[pixel]]);
  // A view that stands alone pools its cells for its thumbnails, as Python does: a square's largest weight.
  const pooled = head.alone ? Math.ceil(Math.max(rows, columns) / MAX_SIDE) : 1;
  const [down, wide] = [Math.ceil(rows / pooled), Math.ceil(columns / pooled)];
  const into = Uint16Array.from(sent, (pixel) => {
    const row = Math.floor(pixel / columns);
    return Math.floor(row / pooled) * wide + Math.floor((pixel - row * columns) / pooled);
  });
  function small(index) {
    const found = new Uint8Array(down * wide).fill(BLOCKED);
    for (let place = 0, from = index * sent.length; place < sent.length; place += 1, from += 1) {
      const [to, code] = [into[place], arrays.cells[from]];
      if (code !== BLOCKED && (found[to] === BLOCKED || code > found[to])) found[to] = code;
    }
    return found;
  }
  const grid = el("div", "heads");
  grid.setAttribute("role", "group");
  grid.setAttribute("aria-label", words.label);

  const heads = labels.map((label, index) => {
    const cell = el("div", index < head.layers * head.columns ? "cell regular" : "cell");
    const button = el("button", "head");
    button.type = "button";
    button.dataset.at = "head" + index;
    button.setAttribute("aria-keyshortcuts", "P");
    const picture = el("span", "picture");
    const name = el("span", "name", label);
    button.append(picture, name);
    if (measure?.texts[index] !== undefined) {
      const bar = el("span", "bar");
      bar.style.setProperty("--share", measure.shares[index] ?? 0);
      picture.append(bar);
      name.append(" ", el("span", "value", measure.texts[index]));
    }
    button.addEventListener("click", () => view.open(index));
    picture.addEventListener("pointermove", (event) => point(index, event));
    picture.addEventListener("pointerleave", () => view.light(null));
    const pin = pinButton(view, index);
    pin.tabIndex = -1; // P does the same from the head itself
    cell.append(button, pin);
    return { cell, button, picture, pin };
  });
  const sieve = headSieve(view, () => draw(...drawn));
  heads.forEach(({ cell, button }, index) => { [cell.index, button.title] = [index, labels[index]]; });
  const { layers, numbers } = headNumbers(head);
  const isSorted = () => view.chosen.by_measure && measure !== null;
  let [side, tall, across, order, drawn] = [0, 0, 1, [], [0, 0]];
  const veil = el("canvas", "veil");
  veil.setAttribute("aria-hidden", "true");
  let over, painted, places, veilWide, veilTall;
  const sheets = sheetsBehind();

  /** The order: by layer, or by the measure, largest first; aggregates come last. */
  function arrange() {
    const all = labels.map((_, index) => index);
    const move = sieve.many ? () => {} : sheets.moving(heads);
    order = isSorted() ? [...measure.order, ...all.slice(measure.order.length)] : all;
    const cells = order.flatMap((index) => [
      ...(isSorted() || index % head.columns ? [] : layers.slice(index / head.columns, index / head.columns + 1)), heads[index].cell]);
    grid.replaceChildren(sheets.node, ...numbers, ...cells, veil);
    stop(view.chosen.opened ?? order[0]);
    if (side) draw(...drawn);
    move();
  }

  /** The head that takes the focus by Tab. */
  function stop(index) {
    heads.forEach(({ button }, other) => { button.tabIndex = other === index ? 0 : -1; });
  }

  grid.addEventListener("keydown", (event) => {
    const there = order.filter((index) => !heads[index].cell.hidden);
    const at = there.findIndex((index) => heads[index].button === event.target);
    if (at < 0) return;
    if (event.key.toLowerCase() === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) view.pin(there[at]);
    const to = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - across, ArrowDown: at + across,
      Home: 0, End: there.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (there[to] === undefined) return;
    stop(there[to]);
    heads[there[to]].button.focus();
  });

  function draw(width, most) {
    drawn = [width, most];
    heads.forEach(({ cell }, index) => { cell.hidden = !sieve.shows(index); });
    // One row per layer if its heads are wide enough, else the row is halved.
    const room = width - NUMBERS;
    across = head.columns;
    while (room / across < 56 && across > 1) across = Math.ceil(across / 2);
    const shape = Math.min(1.25, view.pictured ? view.picture.tall(100) / 100 : Math.max(0.6, rows / columns));
    side = Math.max(40, Math.min(most, Math.floor((room - 8 * (across - 1)) / across) - 6));
    if (sieve.many) {
      side = sieve.side(room, shape, isSorted());
      across = acrossOf(room, side, head.columns, isSorted());
    }
    const lined = !isSorted() && across === head.columns; // a row is a layer, with its number
    numbers.forEach((number) => { number.hidden = !lined; });
    grid.classList.toggle("lined", lined && !measure); // a measure is read below its head
    layers.forEach((number, layer) => { number.hidden = !lined || !sieve.shows(layer * head.columns); });
    heads.forEach(({ cell }, index) => { cell.style.gridColumnStart = lined ? 2 + index % head.columns : ""; });
    tall = Math.round(side * shape);
    const tiny = sieve.many && isTiny(side);
    grid.classList.toggle("tiny", tiny);
    grid.style.gridTemplateColumns = `${lined ? NUMBERS - (tiny ? 2 : 8) + "px " : ""}repeat(${across}, ${side + (tiny ? 2 : 6)}px)`;
    for (const { picture } of heads) [picture.style.width, picture.style.height] = [side + "px", tall + "px"];
    spread();
    repaint();
  }

  /** Lays the veil over the grid and sheets behind it, and learns where the pictures are. */
  function spread() {
    fit(veil, 0, 0);
    const corner = grid.getBoundingClientRect();
    painted = [...heads.keys()].filter((index) => !heads[index].cell.hidden);
    places = painted.map((index) => {
      const { left, top } = heads[index].picture.getBoundingClientRect();
      return [left - corner.left, top - corner.top + grid.scrollTop];
    });
    [veilWide, veilTall] = [grid.clientWidth, grid.scrollHeight];
    sheets.lay(painted, places, veilWide, tall);
    if (veilTall > TALLEST) [places, veilWide, veilTall] = [[], 0, 0];
    over = fit(veil, veilWide, veilTall);
    light(view.lit);
  }

  let pixels, ground, marked;

  /** Paints visible heads at once; if there are many, the others when they become visible. */
  function repaint() {
    pixels = pixelsOf(shades(view.theme));
    ground = hatching(scratch, view.theme.get("blocked"), view.theme.get("hatch"));
    const there = heads.map(({ cell }) => cell).filter((cell) => !cell.hidden);
    const first = new Set(sieve.many ? there.filter((cell) => isInSight(cell.getBoundingClientRect())) : there);
    const inOne = pixelsIn(head.top);
    first.forEach(({ index }) => paint(index, inOne));
    whenSeen(there.filter((cell) => !first.has(cell)), ({ index }) => paint(index, inOne));
  }

  /** The pixel of each weight byte, with `top` as the darkest. */
  function pixelsIn(top) {
    const shown = levels(CODED, (code) => code === BLOCKED, CODED.length, view.chosen.scale, top);
    return Uint32Array.from(shown, (level) => pixels[level]);
  }

  function paint(index, inOne) {
    const on = sheets.of(index);
    if (!on) return; // hidden while it waited
    const { context, left, top } = on;
    const { shared, scale } = view.chosen;
    const codes = small(index);
    const place = [[down, wide], [left, top, side, tall]];
    if (scale === "rank") { // of each row's own
      const weights = Float32Array.from(codes, weightOf);
      paintCells(context, levels(weights, (cell) => codes[cell] === BLOCKED, wide, scale, 1), ...place, pixels, ground);
      return;
    }
    const most = shared ? 0 : codes.reduce((max, code) => (code === BLOCKED ? max : Math.max(max, code)), 0);
    paintCells(context, codes, ...place, shared ? inOne : pixelsIn(weightOf(most) || 1), ground);
  }

  function point(index, event) {
    const box = heads[index].picture;
    if (view.pictured) { view.picture.point(index, event, side); return; }
    const at = (offset, size, count) => Math.min(count - 1, Math.max(0, Math.floor(offset / size * count)));
    const [query, key] = [at(event.offsetY, box.clientHeight, nQuery), at(event.offsetX, box.clientWidth, nKey)];
    view.light({ query, key, head: index });
  }

  /** Marks open and pinned heads; updates only the changed ones. */
  function mark() {
    const { opened, pinned } = view.chosen;
    const now = opened === null ? pinned : [opened, ...pinned];
    for (const index of marked ? new Set([...marked, ...now]) : heads.keys()) {
      const { button, pin } = heads[index];
      button.setAttribute("aria-pressed", String(index === opened));
      button.classList.toggle("opened", index === opened);
      pin.setAttribute("aria-pressed", String(pinned.includes(index)));
    }
    marked = now;
  }

  /** Dims everything but the highlighted row (or column) in every head. */
  function light({ query, key }) {
    over.clearRect(0, 0, veilWide, veilTall);
    if (view.pictured) { view.picture.cover(over, painted, places, side); return; }
    if (query === null && key === null) return;
    over.globalAlpha = view.veil;
    over.fillStyle = view.theme.get("paper");
    for (const [left, top] of places) {
      const [start, size] = band(left, top, query, key);
      if (query !== null) {
        over.fillRect(left, top, side, start - top);
        over.fillRect(left, start + size, side, Math.max(0, top + tall - start - size));
      } else {
        over.fillRect(left, top, start - left, tall);
        over.fillRect(start + size, top, Math.max(0, left + side - start - size), tall);
      }
    }
    over.globalAlpha = 1;
    over.strokeStyle = view.theme.get("accent");
    over.lineWidth = isTiny(side) ? 0.6 : 1.5; // a row of a small picture is hardly taller
    for (const [left, top] of places) {
      const [start, size] = band(left, top, query, key);
      if (query !== null) over.strokeRect(left, start - 0.75, side, size + 1.5);
      else over.strokeRect(start - 0.75, top, size + 1.5, tall);
    }
  }

  /** Position and size of the highlighted row (or column) of the picture at `left` and `top`. */
  function band(left, top, query, key) {
    if (query !== null) return [top + tall * query / nQuery, Math.max(2, tall / nQuery)];
    return [left + side * key / nKey, Math.max(2, side / nKey)];
  }

  /** The (possibly pooled) byte of a cell, shown until the head's exact cells arrive. */
  const codeAt = (index, query, key) => codeOf(index, Math.floor(query / step) * columns + Math.floor(key / step));

  return { node: grid, tools: sieve.node, many: sieve.many, draw, repaint, arrange, mark, light, codeAt };
}
