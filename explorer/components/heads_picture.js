// The picture whose patches are the keys: in every thumbnail the row of one query lies over it.

import { fit } from "./canvas.js";
import { chip, choice, el } from "./dom.js";
import { css, rgb } from "./palette.js";
import { BLOCKED, weightOf } from "./payload.js";

const LARGEST = 480; // px across, of the picture above the thumbnails

/**
 * { node, choice(redraw), tall(side), cover(context, heads, places, side), point(head, event, side), draw(width), light() };
 * `view.pictured` tells whether thumbnails show the picture, or their matrices.
 */
export function headsPicture(view, old) {
  view.pictured = old?.pictured ?? true;
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

  /** Paints the picture, and over its patches the weights that a head gives them; raw, not smoothed. */
  function paint(context, index, left, top, side) {
    const row = query();
    const [wide, high] = [side / columns, tall(side) / rows];
    context.imageSmoothingEnabled = side < width;
    context.drawImage(image, left, top, side, tall(side));
    const codes = keys.map((_, key) => view.codeAt(index, row, key));
    const weights = codes.map((code) => (code === BLOCKED ? 0 : weightOf(code)));
    const most = view.chosen.shared ? head.top : Math.max(...weights) || 1;
    const [ink, shut] = [rgb(view.theme.get("accent")), view.theme.get("hatch")];
    keys.forEach((patch, key) => {
      if (patch < 0) return; // a token that is no patch
      const box = [left + (patch % columns) * wide, top + Math.floor(patch / columns) * high, wide, high];
      context.fillStyle = codes[key] === BLOCKED ? shut : css(ink, 0.85 * Math.min(1, weights[key] / most));
      context.fillRect(...box);
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

  const set = (redraw) => choice("pictured", head.words.over, [[true, head.words.picture], [false, head.words.matrix]], view.pictured, (on) => {
    view.pictured = on;
    redraw();
  });

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
  node.append(chips, canvas);

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
    buttons.forEach((button, index) => button?.classList.toggle("selected", index === query()));
  }

  return { node, choice: set, tall, cover, point, draw, light };
}
