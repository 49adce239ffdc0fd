// Canvas drawing helpers: sharpness, text clipping, hatching.

export const scratch = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

/** Text cut to a width, with "…" if shortened. */
export function clipped(context, text, width) {
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

const leaning = (font) => font.replace(/^.*?([\d.]+)px/, (_, size) => `italic 400 ${0.85 * size}px`);
const GLOSS = [5, 12]; // px from a token to its gloss beside and below it

/** The width of a gloss beside its token, with the blank between them. */
export function glossWidth(context, gloss) {
  if (!gloss) return 0;
  const { font } = context;
  context.font = leaning(font);
  const width = context.measureText(gloss).width + GLOSS[0];
  context.font = font;
  return width;
}

/** A token cut to `room`, and its gloss if that fits: below a centred token, else beside it. */
export function fillToken(context, token, gloss, room, x, y) {
  const text = clipped(context, token, room);
  context.fillText(text, x, y);
  if (!gloss) return;
  const { font, textAlign, globalAlpha } = context;
  const beside = { left: 1, right: -1 }[textAlign] ?? 0;
  const wide = beside ? context.measureText(text).width + GLOSS[0] : 0;
  context.font = leaning(font);
  context.globalAlpha = 0.75 * globalAlpha;
  const shown = clipped(context, gloss, room - wide);
  if (shown === gloss || shown.length > 2) context.fillText(shown, x + beside * wide, y + (beside ? 0 : GLOSS[1]));
  Object.assign(context, { font, globalAlpha });
}

export const sharpness = { fixed: null }; // pixels per CSS pixel while a picture is exported
const pixelRatio = () => sharpness.fixed ?? (window.devicePixelRatio || 1);

/** Sizes a canvas in CSS pixels at the screen's own resolution; returns its context. */
export function fit(canvas, width, height) {
  const ratio = pixelRatio();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// One hatching per rule, so that rules differ without colour. Each draws one 6 px tile.
const HATCHES = [
  (c) => { c.moveTo(-1, 1); c.lineTo(1, -1); c.moveTo(0, 6); c.lineTo(6, 0); c.moveTo(5, 7); c.lineTo(7, 5); },
  (c) => { c.moveTo(-1, 5); c.lineTo(1, 7); c.moveTo(0, 0); c.lineTo(6, 6); c.moveTo(5, -1); c.lineTo(7, 1); },
  (c) => { c.moveTo(0, 3); c.lineTo(6, 3); },
  (c) => { HATCHES[0](c); HATCHES[1](c); },
  (c) => { c.moveTo(3, 0); c.lineTo(3, 6); },
  (c) => { c.rect(2, 2, 1.5, 1.5); },
];

/** A repeating fill of paper and strokes for canvas. */
export function hatching(context, paper, ink, kind = 0) {
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
