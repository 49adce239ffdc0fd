// The picture whose patches are the keys: in every thumbnail the row of one query lies over it.

import { fit } from "./canvas.js";
import { levels } from "./cells.js";
import { chip, choice, el } from "./dom.js";
import { percent } from "./numbers.js";
import { css, rgb } from "./palette.js";
import { BLOCKED, weightOf } from "./payload.js";

const LARGEST = 480; // px across, of the picture above the thumbnails
const FINE = 4; // samples of a smoothed patch across

/** A grid of values, interpolated between the centres of its cells: FINE x FINE samples per cell. */
function smoothed(values, rows, columns) {
  const halfway = (sample, last) => Math.min(Math.max((sample + 0.5) / FINE - 0.5, 0), last);
  return Float32Array.from({ length: rows * columns * FINE ** 2 }, (_, at) => {
    const x = halfway(at % (columns * FINE), columns - 1);
    const y = halfway(Math.floor(at / (columns * FINE)), rows - 1);
    const [left, top] = [Math.floor(x), Math.floor(y)];
    const [right, below] = [Math.min(left + 1, columns - 1), Math.min(top + 1, rows - 1)];
    const between = (row) => values[row * columns + left] * (1 - x + left) + values[row * columns + right] * (x - left);
    return between(top) * (1 - y + top) + between(below) * (y - top);
  });
}

/**
 * { node, choices(redraw), tall(side), cover(context, heads, places, side), point(head, event, side), draw(width), light() };
 * `view.pictured` tells whether thumbnails show the picture, or their matrices.
 */
export function headsPicture(view, old) {
  view.pictured = old?.pictured ?? true;
  view.smoothed = old?.smoothed ?? false;
  const { head, arrays } = view;
  const { width, height, rows, columns, keys, queries } = head.picture;
  const image = el("canvas");
  [image.width, image.height] = [width, height];
  const pixels = image.getContext("2d").createImageData(width, height);
  for (let at = 0; at < width * height; at += 1) {
    pixels.data.set(arrays.pixels.subarray(3 * at, 3 * at + 3), 4 * at);
    pixels.data[4 * at + 3] = 255;
  }
  image.getContext("2d").putImageData(pixels, 0, 0);
  const places = new Map(keys.map((patch, key) => [patch, key])); // patch -> key
  const asked = new Map(queries.map((patch, at) => [patch, at]));
  let last = Math.max(0, queries.findIndex((patch) => patch >= 0));

  /** The query whose rows are shown: the lit or locked one, or the last that was. */
  function query() {
    last = view.lit.query ?? view.chosen.query ?? last;
    return last;
  }

  const tall = (side) => Math.round(side * height / width);

  /** What a row gives each patch, and what it looks like smoothed. */
  function hidden(index) {
    const weights = new Float32Array(rows * columns);
    keys.forEach((patch, key) => {
      const code = view.codeAt(index, query(), key);
      if (patch >= 0 && code !== BLOCKED) weights[patch] = weightOf(code);
    });
    const seen = new Float32Array(weights.length);
    smoothed(weights, rows, columns).forEach((value, at) => {
      const [row, column] = [Math.floor(at / (columns * FINE ** 2)), Math.floor(at % (columns * FINE) / FINE)];
      seen[row * columns + column] += value / FINE ** 2;
    });
    const most = weights.indexOf(Math.max(...weights));
    const all = seen.reduce((sum, value) => sum + value, 0) || 1;
    const moved = seen.reduce((sum, value, patch) => sum + Math.max(0, value - weights[patch]), 0) / all;
    return { moved, largest: weights[most], shown: seen[most] };
  }

  const mist = el("canvas");
  [mist.width, mist.height] = [columns * FINE, rows * FINE];

  /** Paints the picture, and over its patches the weights that a head gives them. */
  function paint(context, index, left, top, side) {
    const row = query();
    const [wide, high] = [side / columns, tall(side) / rows];
    context.imageSmoothingEnabled = side < width;
    context.drawImage(image, left, top, side, tall(side));
    const codes = keys.map((_, key) => view.codeAt(index, row, key));
    const weights = codes.map((code) => (code === BLOCKED ? 0 : weightOf(code)));
    const most = view.chosen.shared ? head.top : Math.max(...weights) || 1;
    const shares = levels(weights, (key) => codes[key] === BLOCKED, weights.length, view.chosen.scale, most);
    const [ink, shut] = [rgb(view.theme.get("accent")), view.theme.get("hatch")];
    if (view.smoothed) {
      const grid = new Float32Array(rows * columns);
      keys.forEach((patch, key) => { if (patch >= 0 && codes[key] !== BLOCKED) grid[patch] = shares[key] / 254; });
      const soft = mist.getContext("2d");
      const over = soft.createImageData(mist.width, mist.height);
      smoothed(grid, rows, columns).forEach((share, at) => over.data.set([...ink.slice(0, 3), 0.85 * 255 * share], 4 * at));
      soft.putImageData(over, 0, 0);
      context.imageSmoothingEnabled = true;
      context.drawImage(mist, left, top, side, tall(side));
    }
    keys.forEach((patch, key) => {
      if (patch < 0) return; // a token that is no patch
      const box = [left + (patch % columns) * wide, top + Math.floor(patch / columns) * high, wide, high];
      context.fillStyle = codes[key] === BLOCKED ? shut : css(ink, 0.85 * shares[key] / 254);
      if (codes[key] === BLOCKED || !view.smoothed) context.fillRect(...box);
      if (key !== view.lit.key) return;
      context.strokeStyle = view.theme.get("accent");
      context.strokeRect(...box);
    });
  }

  /** The key under a point of a picture of this size, else null. */
  function patchAt(x, y, side) {
    const [column, row] = [Math.floor(x / side * columns), Math.floor(y / tall(side) * rows)];
    return column < 0 || row < 0 || column >= columns || row >= rows ? null : row * columns + column;
  }

  /** Paints the pictures of these heads at these places. */
  const cover = (context, heads, corners, side) => heads.forEach((index, at) => paint(context, index, ...corners[at], side));

  /** Lights the patch under the pointer in the thumbnail of a head. */
  function point(index, { offsetX, offsetY }, side) {
    view.light({ query: query(), key: places.get(patchAt(offsetX, offsetY, side)) ?? null, head: index });
  }

  const set = (name, label, options, redraw) => choice(name, label, options, view[name], (on) => {
    view[name] = on;
    redraw();
  });
  const { words } = head;
  const choices = (redraw) => [
    set("pictured", words.over, [[true, words.picture], [false, words.matrix]], redraw),
    set("smoothed", words.patches, [[false, words.raw], [true, words.smooth]], redraw),
  ];

  const node = el("div", "axis");
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", head.words.picture);
  const chips = el("div", "strip");
  const buttons = queries.map((patch, index) => {
    if (patch >= 0) return null; // the picture itself is the axis
    const button = chip({ ...head.queries, tokens: head.queries.labels ?? head.queries.tokens }, index);
    button.dataset.at = "query" + index;
    const on = () => view.light({ query: index, key: null, head: null });
    button.addEventListener("pointerenter", on);
    button.addEventListener("focus", on);
    for (const gone of ["pointerleave", "blur"]) button.addEventListener(gone, () => view.light(null));
    button.addEventListener("click", () => view.lock(index, null));
    chips.append(button);
    return button;
  });
  const loss = el("p", "loss");
  node.append(chips, canvas, loss);

  let side = 0;
  const shown = () => view.chosen.opened ?? view.chosen.pinned[0] ?? 0;
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    const patch = patchAt(offsetX, offsetY, side);
    if (asked.has(patch)) view.light({ query: asked.get(patch), key: null, head: null });
    else if (places.has(patch)) view.light({ query: query(), key: places.get(patch), head: shown() });
  });
  canvas.addEventListener("pointerleave", () => view.light(null));
  canvas.addEventListener("click", ({ offsetX, offsetY }) => {
    const patch = patchAt(offsetX, offsetY, side);
    if (asked.has(patch)) view.lock(asked.get(patch), null);
  });

  let context;
  function draw(wide) {
    side = Math.min(LARGEST, wide);
    context = fit(canvas, side, tall(side));
    light();
  }

  function light() {
    if (!context) return;
    context.clearRect(0, 0, side, tall(side));
    paint(context, shown(), 0, 0, side);
    const patch = queries[query()];
    if (patch >= 0) { // where the query itself is
      Object.assign(context, { strokeStyle: view.theme.get("target"), lineWidth: 2 });
      context.strokeRect((patch % columns) * side / columns, Math.floor(patch / columns) * tall(side) / rows, side / columns, tall(side) / rows);
      context.lineWidth = 1;
    }
    loss.hidden = !view.smoothed;
    if (view.smoothed) {
      const { moved, largest, shown: seen } = hidden(shown());
      loss.textContent = words.hides.replace("{head}", head.labels[shown()]).replace("{moved}", percent(moved))
        .replace("{largest}", percent(largest)).replace("{seen}", percent(seen));
    }
    buttons.forEach((button, index) => button?.classList.toggle("selected", index === query()));
  }

  return { node, choices, tall, cover, point, draw, light, repaint: light };
}
