// Weight matrices as pictures, shared by thumbnails and the large heatmap.

import { scratch } from "./canvas.js";
import { BLOCKED } from "./payload.js";

/** One 32-bit pixel for each byte; those without a colour stay transparent. */
export function pixelsOf(colours) {
  const pixels = new Uint32Array(256);
  new Uint8Array(pixels.buffer).set(colours.flatMap((colour) => [...colour, 255]));
  return pixels;
}

/** Draws hatching, then the open cells over it. */
export function paintCells(context, codes, sides, box, pixels, ground) {
  if (codes.includes(BLOCKED)) {
    context.fillStyle = ground;
    context.fillRect(...box);
  }
  paintImage(context, codes, sides, box, pixels);
}

/** Draws cells as one small image scaled to width x height. */
export function paintImage(context, codes, [rows, columns], [x, y, width, height], pixels) {
  const image = new ImageData(columns, rows);
  const out = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < out.length; cell += 1) out[cell] = pixels[codes[cell]];
  if (scratch.canvas.width !== columns) scratch.canvas.width = columns;
  if (scratch.canvas.height !== rows) scratch.canvas.height = rows;
  scratch.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(scratch.canvas, x, y, width, height);
}

const LOG_FLOOR = 1e-4; // smaller weights share the palest colour of the log scale

/**
 * Weights as bytes 0 to 254 of colour, 255 where blocked. "linear" runs from 0 to `top`, "log"
 * from 0.01 % to `top`, "rank" by the order among a row's open cells.
 */
export function levels(weights, isBlocked, columns, scale, top) {
  const out = new Uint8Array(weights.length);
  const depth = Math.log(Math.max(top, 2 * LOG_FLOOR) / LOG_FLOOR);
  for (let cell = 0; cell < out.length; cell += 1) {
    if (isBlocked(cell)) { out[cell] = BLOCKED; continue; }
    if (scale === "rank") continue;
    const share = scale === "log"
      ? Math.log(Math.max(weights[cell], LOG_FLOOR) / LOG_FLOOR) / depth : weights[cell] / top;
    out[cell] = Math.round(254 * Math.max(0, Math.min(share, 1)));
  }
  if (scale !== "rank") return out;
  for (let start = 0; start < out.length; start += columns) {
    const open = [];
    for (let cell = start; cell < start + columns; cell += 1) if (out[cell] !== BLOCKED) open.push(cell);
    open.sort((a, b) => weights[a] - weights[b]);
    open.forEach((cell, rank) => { out[cell] = Math.round(254 * rank / Math.max(open.length - 1, 1)); });
  }
  return out;
}
