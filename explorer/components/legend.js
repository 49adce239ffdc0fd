// One entry of a legend: a swatch on its own canvas, and its meaning.

import { fit } from "./canvas.js";
import { el } from "./dom.js";

/** `text` after a swatch of width x height pixels, filled by `paint`. */
export function legendEntry(text, [width, height], paint) {
  const item = el("span", "entry");
  const swatch = el("canvas");
  paint(fit(swatch, width, height));
  item.append(swatch, el("span", "", text));
  return item;
}
