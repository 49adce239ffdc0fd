// Layout of a matrix with tokens on both axes: cells and labels.

import { clipped, fillToken, glossWidth, scratch } from "./canvas.js";
import { glossOf } from "./payload.js";

const LEVEL = 17; // px between the lines of alternating column labels
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const step = (least) => STEPS.find((each) => each >= least) ?? 1000;
const isBare = (axis) => !axis.title && axis.tokens.every((token) => !token);

/**
 * Labels are always upright. Where they do not fit side by side they alternate between up to three
 * lines; where that is not enough only every other column has one, and finally they are clipped.
 * Numbers are on one line, where every second, fifth, tenth … has a label.
 */
export function axisBox(width, queries, keys, theme, { least, leastWide = least, leastTall = 0, right = 0, tallest = 640, roomy = false }) {
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];
  scratch.font = theme.font(13);
  const widest = (texts, glosses = []) => Math.max(...texts.map((text, at) => scratch.measureText(text).width + glossWidth(scratch, glosses[at])));
  // Row labels with two tokens may take more of the width.
  const { scale } = theme;
  const glosses = queries.tokens.map(glossOf);
  const most = queries.labels || !queries.stream || glosses.some(Boolean) ? Math.min(200 * scale, width / 3) : Math.min(130 * scale, width / 4);
  const left = isBare(queries) ? 2 : Math.ceil(Math.min(most, Math.max(widest(rowLabels(queries), glosses), 20) + 10) + (queries.title ? 22 * scale : 0));
  const keyGlosses = keys.tokens.map((token) => glossWidth(scratch, glossOf(token)));
  const longest = Math.min(110 * scale, Math.max(widest(keys.tokens), keys.numbered ? 0 : 20)) + 8;
  const room = (width - left - Math.max(right, 20) - 10) / nKey;
  let tall = Math.max(least, Math.min(32 * scale, tallest / nQuery, room * 1.5));
  const wide = Math.floor(Math.max(leastWide, Math.min(room, Math.max(tall, Math.min(84 * scale, roomy ? Infinity : Math.max(longest, ...keyGlosses))))));
  const levels = keys.numbered ? 1 : Math.min(3, Math.ceil(longest / wide), nKey);
  const every = (keys.numbered ? step : Math.ceil)(Math.min(longest, 64) / (wide * levels));
  tall = Math.floor(Math.max(leastTall, Math.min(tall, wide)));
  const below = keyGlosses.some(Boolean) ? 12 * scale : 0; // the line of glosses below tokens
  const level = LEVEL * scale + below;
  const above = isBare(keys) ? 2 : Math.ceil((keys.title ? 42 : 24) * scale + below + (levels - 1) * level);
  return {
    nQuery, nKey, left, above, wide, tall, levels, every, level, below,
    width: left + nKey * wide + 2 + Math.max(right, 20), height: above + nQuery * tall + 2,
  };
}

/** Labels and titles of both axes; `lit` [query, key] are highlighted. */
export function drawAxes(context, box, queries, keys, theme, lit = [null, null]) {
  context.font = theme.font(13);
  context.textBaseline = "middle";
  const ink = (row, index, on) => theme.get(on ? "accent" : row.special[index] ? "muted" : "ink");
  // Labels thin out once the cells are smaller than the text.
  for (let index = 0; index < box.nQuery; index += queries.numbered ? step(20 * theme.scale / box.tall) : Math.ceil(14 * theme.scale / box.tall)) {
    context.fillStyle = ink(queries, index, lit[0] === index);
    queryLabel(context, box, queries, index);
  }
  for (let index = 0; index < box.nKey; index += box.every) leader(context, box, keys, index, theme);
  for (let index = 0; index < box.nKey; index += box.every) {
    context.fillStyle = ink(keys, index, lit[1] === index);
    keyLabel(context, box, keys, index);
  }
  context.fillStyle = theme.stream(keys.stream);
  context.textAlign = "left";
  if (keys.title) context.fillText(`${keys.title} →`, box.left, 9 * theme.scale);
  context.fillStyle = theme.stream(queries.stream);
  context.save();
  const title = queries.title && `← ${queries.title}`;
  // Of few rows, the title begins above them.
  context.translate(9 * theme.scale, Math.max(0, Math.min(box.above, box.height - context.measureText(title).width)));
  context.rotate(-Math.PI / 2);
  context.textAlign = "right";
  context.fillText(title, 0, 0);
  context.restore();
}

/** The row labels: the tokens, or longer labels if the caller sent them. */
export const rowLabels = (queries) => queries.labels ?? queries.tokens;

export function queryLabel(context, box, queries, index) {
  context.textAlign = "right";
  const room = box.left - (queries.title ? 30 : 10);
  fillToken(context, rowLabels(queries)[index], glossOf(queries.tokens[index]), room, box.left - 8, box.above + (index + 0.5) * box.tall);
}

/** The line of a column's label, counted from the lowest. */
export const levelOf = (box, index) => Math.floor(index / box.every) % box.levels;

/** The centre of a column's label. */
export const labelAt = (box, index) => [box.left + (index + 0.5) * box.wide, box.above - 10 - box.below - levelOf(box, index) * box.level];

/** A column's label, cut to its share of the line. */
export const keyText = (context, box, keys, index) => (
  clipped(context, keys.tokens[index], roomOf(box)));
const roomOf = (box) => Math.max(box.wide * box.levels * box.every - 6, 12);

function keyLabel(context, box, keys, index) {
  const [x, y] = labelAt(box, index);
  const text = keyText(context, box, keys, index);
  const width = context.measureText(text).width;
  context.clearRect(x - width / 2 - 2, y - 8, width + 4, 16 + box.below); // clear the hairlines below
  context.textAlign = "center";
  fillToken(context, text, glossOf(keys.tokens[index]), roomOf(box), x, y);
}

/** A hairline from a raised label down to its column. */
function leader(context, box, keys, index, theme) {
  if (!levelOf(box, index) || !keys.tokens[index]) return;
  const [x, y] = labelAt(box, index);
  context.strokeStyle = theme.get("line");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(x) + 0.5, y + 8 + box.below);
  context.lineTo(Math.round(x) + 0.5, box.above - 3);
  context.stroke();
}

/** The [query, key] under the pointer, or null outside the cells. */
export function cellUnder(event, box) {
  const key = Math.floor((event.offsetX - box.left) / box.wide);
  const query = Math.floor((event.offsetY - box.above) / box.tall);
  return key >= 0 && key < box.nKey && query >= 0 && query < box.nQuery ? [query, key] : null;
}

/** The cell that an arrow key leads to; undefined for any other key. */
export function cellBeside(name, [query, key], box) {
  const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[name];
  if (!by) return undefined;
  const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
  return [clamp(query + by[0], box.nQuery), clamp(key + by[1], box.nKey)];
}

export function outlineCell(context, box, at, colour, width) {
  if (!at) return;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(box.left + at[1] * box.wide - 0.5, box.above + at[0] * box.tall - 0.5, box.wide, box.tall);
}
