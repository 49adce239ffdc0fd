// One entry of a legend: a swatch, painted on a canvas of its own, and what it means.

import { fit } from "./canvas.js";
import { el } from "./dom.js";

/** `text` behind a swatch of width x height pixels that `paint` fills. */
export function legendEntry(text, [width, height], paint) {
  const item = el("span", "entry");
  const swatch = el("canvas");
  paint(fit(swatch, width, height));
  item.append(swatch, el("span", "", text));
  return item;
}
