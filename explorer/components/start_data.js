// Data access for the picture: means over heads, images of heads.

import { pixelsOf } from "./cells.js";
import { css, rgb, shades } from "./palette.js";
import { BLOCKED, weightOf } from "./payload.js";

const weight = (code) => (code === BLOCKED ? 0 : weightOf(code));

/** All attention of a flow. `row(place, query)`, `atStep(place, step)`: a Float32Array over keys. */
export function attentionOf(head, arrays) {
  const known = new Map();
  const shape = (lane, block, site) => {
    const { heads, keys } = head.lanes[lane].blocks[block].sites[site];
    return { heads, keys, queries: head.lanes[lane].tokens.length };
  };
  function mean(name, rows, { heads, keys }, at, only, byStep) {
    const id = `${name} ${at} ${only}`;
    if (known.has(id)) return known.get(id);
    const codes = arrays[name];
    const sum = new Float32Array(keys);
    const from = only === undefined ? 0 : only;
    const to = only === undefined ? heads : only + 1;
    for (let h = from; h < to; h += 1) {
      const start = byStep ? (at * heads + h) * keys : (h * rows + at) * keys;
      for (let k = 0; k < keys; k += 1) sum[k] += weight(codes[start + k]) / (to - from);
    }
    known.set(id, sum);
    return sum;
  }
  return {
    row: (lane, block, site, query, only) => {
      const of = shape(lane, block, site);
      return mean(`cells${lane}.${block}.${site}`, of.queries, of, query, only, false);
    },
    atStep: (lane, block, site, step, only) => {
      const name = `rows${lane}.${block}.${site}`;
      if (step < 0 || !arrays[name]?.length) return null;
      return mean(name, 0, shape(lane, block, site), step, only, true);
    },
  };
}

/** One image per sublayer, its heads side by side: [canvas, keys wide and queries tall each]. */
export function picturesOf(head, arrays, theme) {
  // Codes are square roots of weights, so that small weights are visible in a small picture.
  const colours = pixelsOf([...shades(theme), rgb(theme.get("blocked"))]);
  const made = {};
  head.lanes.forEach((lane, l) => lane.blocks.forEach((block, b) => block.sites.forEach((site, s) => {
    const [nq, nk] = [lane.tokens.length, site.keys];
    const codes = arrays[`cells${l}.${b}.${s}`];
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [nk * site.heads, nq];
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, nq);
    const pixels = new Uint32Array(image.data.buffer);
    for (let h = 0; h < site.heads; h += 1) for (let q = 0; q < nq; q += 1) for (let k = 0; k < nk; k += 1) {
      pixels[q * canvas.width + h * nk + k] = colours[codes[(h * nq + q) * nk + k]];
    }
    context.putImageData(image, 0, 0);
    made[`${l}.${b}.${s}`] = canvas;
  })));
  return made;
}

/** The first embedding values of each token as colours: a canvas with one row per token. */
export function stripsOf(head, arrays, colours) {
  return head.lanes.map((lane, l) => {
    const codes = arrays[`embedded${l}`];
    if (!codes) return null;
    const [n, size] = [lane.tokens.length, codes.length / lane.tokens.length];
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [size, n];
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, n);
    const [pixels, shown] = [new Uint32Array(image.data.buffer), pixelsOf(colours.diverging)];
    codes.forEach((code, at) => { pixels[at] = shown[code]; });
    context.putImageData(image, 0, 0);
    return canvas;
  });
}

/** A cache of the colours used in every frame. */
export function coloursOf(theme, root) {
  const style = getComputedStyle(root);
  const names = ["ink", "muted", "line", "paper", "source", "source-soft", "target", "target-soft", "accent", "blocked", "hatch", "query", "key", "value", "attention-0", "attention-3"];
  const found = Object.fromEntries(names.map((name) => [name, theme.get(name)]));
  const parts = Object.fromEntries(names.map((name) => [name, rgb(found[name])]));
  const made = new Map();
  return {
    ...found,
    text: style.color,
    ground: style.getPropertyValue("--st-background-color") || found.paper,
    /** A colour of the palette with an opacity, in steps of a hundredth. */
    faint(name, alpha) {
      const id = `${name} ${Math.round(alpha * 100)}`;
      if (!made.has(id)) made.set(id, css(parts[name], Math.round(alpha * 100) / 100));
      return made.get(id);
    },
    diverging: shades(theme, "diverging"),
    attention: shades(theme),
  };
}
