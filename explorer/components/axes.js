// A matrix with tokens on both axes: where its cells lie and what stands beside them.

/** Cells wide enough for horizontal labels if there is room, else slanted labels and scrolling. */
function axisBox(width, queries, keys, theme, { least, leastTall = 0, right = 0, tallest = 640 }) {
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];
  scratch.font = `13px ${theme.font}`;
  const widest = (row) => Math.max(...row.tokens.map((token) => scratch.measureText(token).width), 20);
  const left = Math.ceil(Math.min(Math.min(130, width / 4), widest(queries) + 10) + 22);
  const longest = Math.min(110, widest(keys));
  const room = (width - left - right - 10) / nKey;
  let tall = Math.max(least, Math.min(32, tallest / nQuery, room * 1.5));
  let wide = Math.floor(Math.max(least, Math.min(room, Math.max(tall, Math.min(84, longest + 10)))));
  const slanted = longest + 4 > wide;
  const overhang = slanted ? Math.max(0, 0.72 * longest - 0.4 * wide) : 0; // of the last slanted label
  if (slanted) wide = Math.floor(Math.max(least, Math.min(wide, room - overhang / nKey)));
  tall = Math.floor(Math.max(leastTall, Math.min(tall, wide)));
  const above = Math.ceil((slanted ? longest * 0.75 + 14 : 22) + 20);
  return {
    nQuery, nKey, left, above, wide, tall, slanted,
    width: left + nKey * wide + 2 + Math.max(overhang, right), height: above + nQuery * tall + 2,
  };
}

/** Labels and titles of both axes; `lit` [query, key] stand out. */
function drawAxes(context, box, queries, keys, theme, lit = [null, null]) {
  context.font = `13px ${theme.font}`;
  context.textBaseline = "middle";
  const ink = (row, index, on) => theme.get(on ? "accent" : row.special[index] ? "muted" : "ink");
  // Labels thin out once the cells are smaller than the text.
  for (let index = 0; index < box.nQuery; index += Math.ceil(14 / box.tall)) {
    context.fillStyle = ink(queries, index, lit[0] === index);
    queryLabel(context, box, queries, index);
  }
  context.font = keyFont(box, theme);
  for (let index = 0; index < box.nKey; index += Math.ceil(14 / box.wide)) {
    context.fillStyle = ink(keys, index, lit[1] === index);
    keyLabel(context, box, keys, index);
  }
  context.font = `13px ${theme.font}`;
  context.fillStyle = theme.stream(keys.stream);
  context.textAlign = "left";
  context.fillText(`${keys.title} →`, box.left, 9);
  context.fillStyle = theme.stream(queries.stream);
  context.save();
  context.translate(9, box.above);
  context.rotate(-Math.PI / 2);
  context.textAlign = "right";
  context.fillText(`← ${queries.title}`, 0, 0);
  context.restore();
}

function queryLabel(context, box, queries, index) {
  context.textAlign = "right";
  const text = clipped(context, queries.tokens[index], box.left - 30);
  context.fillText(text, box.left - 8, box.above + (index + 0.5) * box.tall);
}

/** Slanted labels of narrow columns are set smaller, so that they do not touch. */
const keyFont = (box, theme, weight = 400) => `${weight} ${box.slanted && box.wide < 20 ? 12 : 13}px ${theme.font}`;

function keyLabel(context, box, keys, index) {
  context.save();
  context.translate(box.left + (index + (box.slanted ? 0.6 : 0.5)) * box.wide, box.above - 10);
  if (box.slanted) context.rotate(-Math.PI / 4);
  context.textAlign = box.slanted ? "left" : "center";
  context.fillText(clipped(context, keys.tokens[index], box.slanted ? 110 : box.wide), 0, 0);
  context.restore();
}

/** The [query, key] under the pointer, or null beside the cells. */
function cellUnder(event, box) {
  const key = Math.floor((event.offsetX - box.left) / box.wide);
  const query = Math.floor((event.offsetY - box.above) / box.tall);
  return key >= 0 && key < box.nKey && query >= 0 && query < box.nQuery ? [query, key] : null;
}

/** Where an arrow key leads from a cell; undefined for every other key. */
function cellBeside(name, [query, key], box) {
  const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[name];
  if (!by) return undefined;
  const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
  return [clamp(query + by[0], box.nQuery), clamp(key + by[1], box.nKey)];
}

function outlineCell(context, box, at, colour, width) {
  if (!at) return;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(box.left + at[1] * box.wide - 0.5, box.above + at[0] * box.tall - 0.5, box.wide, box.tall);
}
