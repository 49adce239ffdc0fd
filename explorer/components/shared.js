// What every view shares. This file is put in front of each view's own script.
// User text reaches the page only through textContent and fillText.

const BLOCKED = 255;

/** Head and matrices out of one Uint8Array; payload.py describes the layout. */
function unpack(data) {
  const length = new DataView(data.buffer, data.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  const arrays = {};
  for (const [name, { offset, shape }] of Object.entries(head.arrays)) {
    const size = shape.reduce((product, side) => product * side, 1);
    arrays[name] = data.subarray(4 + length + offset, 4 + length + offset + size);
  }
  return { head, arrays };
}

/** A weight's byte as a number 0 to 1: the root was sent, see encode_weights. */
const weightOf = (code) => (code / 254) ** 2;

function percent(weight) {
  if (weight > 0 && weight < 0.0005) return "< 0.1 %";
  return (100 * weight).toFixed(weight < 0.0995 ? 1 : 0) + " %";
}

/** An element with a class and text. */
function el(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

const scratch = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

/** Any CSS colour as [r, g, b]. */
function rgb(colour) {
  scratch.canvas.width = scratch.canvas.height = 1;
  scratch.fillStyle = colour.trim();
  scratch.fillRect(0, 0, 1, 1);
  return scratch.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

/** Takes over the light or dark palette; Streamlit tells only its background colour. */
function followTheme(root) {
  const [r, g, b] = rgb(getComputedStyle(root).getPropertyValue("--st-background-color") || "#fff");
  root.toggleAttribute("data-dark", 0.3 * r + 0.59 * g + 0.11 * b < 128);
  const style = getComputedStyle(root);
  const known = {}; // asking the style again would make the browser settle all pending layout
  const get = (name) => (known[name] ??= style.getPropertyValue("--hl-" + name).trim());
  return {
    font: style.fontFamily,
    get,
    stream: (stream) => get(stream === "src" ? "source" : stream === "tgt" ? "target" : "muted"),
  };
}

/** 255 colours through the attention scale, palest first. */
function shades(theme) {
  const stops = [0, 1, 2, 3, 4].map((index) => rgb(theme.get("attention-" + index)));
  return Array.from({ length: 255 }, (_, level) => {
    const at = level / 254 * 4;
    const low = Math.min(Math.floor(at), 3);
    return [0, 1, 2].map((c) => Math.round(stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (at - low)));
  });
}

/** 255 colours, one per weight byte; darkest at `top`. */
function ramp(theme, top = 1) {
  const colours = shades(theme);
  return colours.map((_, code) => colours[Math.round(Math.min(weightOf(code) / top, 1) * 254)]);
}

const css = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;

/** Black or white, whichever stands out more on a colour: always 4.5 to 1 or better. */
function inkOn(colour) {
  const [r, g, b] = [...colour].map((part) => (
    part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

/** Text cut to a width, with "…" where something is missing. */
function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text];
  let [fits, over] = [0, letters.length];
  while (over - fits > 1) {
    const middle = (fits + over) >> 1;
    if (context.measureText(letters.slice(0, middle).join("") + "…").width <= width) fits = middle;
    else over = middle;
  }
  return letters.slice(0, fits).join("") + "…";
}

const sharpness = { fixed: null }; // pixels per CSS pixel while a picture is made to be kept
const pixelRatio = () => sharpness.fixed ?? (window.devicePixelRatio || 1);

/** Sizes a canvas in CSS pixels at the screen's own resolution; returns its context. */
function fit(canvas, width, height) {
  const ratio = pixelRatio();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// One way of hatching per rule, so that rules differ without colour too. Each draws one 6 px tile.
const HATCHES = [
  (c) => { c.moveTo(-1, 1); c.lineTo(1, -1); c.moveTo(0, 6); c.lineTo(6, 0); c.moveTo(5, 7); c.lineTo(7, 5); },
  (c) => { c.moveTo(-1, 5); c.lineTo(1, 7); c.moveTo(0, 0); c.lineTo(6, 6); c.moveTo(5, -1); c.lineTo(7, 1); },
  (c) => { c.moveTo(0, 3); c.lineTo(6, 3); },
  (c) => { HATCHES[0](c); HATCHES[1](c); },
  (c) => { c.moveTo(3, 0); c.lineTo(3, 6); },
  (c) => { c.rect(2, 2, 1.5, 1.5); },
];

/** A repeating fill of paper and strokes for canvas. */
function hatching(context, paper, ink, kind = 0) {
  const ratio = pixelRatio();
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(6 * ratio);
  const pen = tile.getContext("2d");
  pen.scale(tile.width / 6, tile.height / 6);
  pen.fillStyle = paper;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = ink;
  pen.lineWidth = 0.9;
  pen.beginPath();
  HATCHES[kind % HATCHES.length](pen);
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(6 / tile.width));
  return pattern;
}

/** Fills `root` anew and gives the focus back to the control that had it before. */
function rebuild(root, ...children) {
  const focused = root.getRootNode().activeElement?.dataset.at;
  root.replaceChildren(...children);
  if (focused !== undefined) root.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
}

/** One tab stop for many controls: arrows move, Home and End jump. `next` maps a key to an index. */
function roving(items, start, next) {
  items.forEach((item, index) => {
    item.tabIndex = index === start ? 0 : -1;
    item.addEventListener("keydown", (event) => {
      const to = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : next(event.key, index);
      if (to === undefined) return;
      event.preventDefault();
      if (!items[to]) return;
      items.forEach((other) => { other.tabIndex = -1; });
      items[to].tabIndex = 0;
      items[to].focus();
    });
  });
}

/**
 * Calls `draw` now and on every new width. Streamlit runs a view again for new data and for a
 * change of theme, but without the clean-up of the run before, so that is done here.
 */
function redraws(root, draw) {
  root.stop?.();
  let width = -1;
  const again = () => { width = root.clientWidth; draw(width); };
  const sizes = new ResizeObserver(() => { if (root.clientWidth !== width) again(); });
  again();
  sizes.observe(root);
  root.stop = () => sizes.disconnect();
  return root.stop;
}

/** A token chip; `row` is a row of tokens as tokens_head sends it. */
function chip(row, index, tag = "button") {
  const node = el(tag, "chip", row.tokens[index]);
  if (tag === "button") node.type = "button";
  if (row.special[index]) node.classList.add("special");
  if (row.stream) node.classList.add(row.stream);
  return node;
}
