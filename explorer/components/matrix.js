// What a matrix looks like: cells, hatching, texts in cells, marks and legend.

import { drawAxes } from "./axes.js";
import { clipped, fit, hatching } from "./canvas.js";
import { paintImage, pixelsOf } from "./cells.js";
import { css, inkOn, shades } from "./palette.js";

export const BLANK = 249; // the byte of a cell without a value: below are colours, above are rules
const LINE = 15; // px between the lines of a text in a cell

/** The look of one matrix in a theme; `own` is its part of the head, `codes` the bytes of its cells. */
export function looks(own, codes, theme) {
  const ramp = own.scale && shades(theme, own.scale.palette);
  const colourAt = (share) => ramp[Math.round(254 * Math.min(Math.max(share, 0), 1))];
  const colours = own.scale
    ? Array.from({ length: BLANK }, (_, code) => colourAt(code / (BLANK - 1))) : [];
  const rules = own.rules.slice(1).map((_, at) => at + 1).filter((rule) => codes.includes(BLANK + rule));

  /** The hatching of a rule: a heatmap has one, without a colour of its own. */
  function shut(context, rule) {
    if (own.scale) return hatching(context, theme.get("blocked"), theme.get("hatch"));
    return hatching(context, theme.get(`rules-${rule - 1}`), theme.get(`rule-marks-${rule - 1}`), rule - 1);
  }

  function paint(context, box, rows, columns, lit) {
    const { left, above, wide, tall, nQuery, nKey } = box;
    const [width, height] = [nKey * wide, nQuery * tall];
    if (own.scale) paintImage(context, codes, [nQuery, nKey], [left, above, width, height], pixelsOf(colours));
    else {
      context.fillStyle = theme.get("paper");
      context.fillRect(left, above, width, height);
    }
    for (const rule of rules) {
      context.fillStyle = shut(context, rule);
      for (let at = 0; at < codes.length;) { // one rectangle per run in a row
        let end = at + 1;
        while (end % nKey && codes[end] === codes[at]) end += 1;
        if (codes[at] === BLANK + rule) context.fillRect(left + at % nKey * wide, above + Math.floor(at / nKey) * tall, (end - at) * wide, tall);
        at = end;
      }
    }
    if (Math.min(wide, tall) >= 8 || !own.scale) hairlines(context, box);
    drawAxes(context, box, rows, columns, theme, lit);
  }

  function hairlines(context, { left, above, wide, tall, nQuery, nKey }) {
    const outer = own.scale ? 0 : 1; // a mask is white on white: it needs a frame
    context.fillStyle = theme.get(own.scale ? "paper" : "line");
    for (let key = 1 - outer; key < nKey + outer; key += 1) context.fillRect(left + key * wide - 1, above, 1, nQuery * tall);
    for (let query = 1 - outer; query < nQuery + outer; query += 1) context.fillRect(left, above + query * tall - 1, nKey * wide, 1);
  }

  /** Texts in cells; one of a blank cell may go over its edge. */
  function write(context, { left, above, wide, tall, nKey }, written) {
    context.font = theme.font(wide < 24 ? 10 : 12);
    context.textBaseline = "middle";
    written?.forEach((text, at) => {
      if (!own.written[text]) return;
      const lines = own.written[text].split("\n");
      const isBlank = codes[at] >= BLANK;
      context.fillStyle = isBlank ? theme.get("ink") : inkOn(colours[codes[at]]);
      context.textAlign = codes[at] === BLANK ? "left" : "center";
      const x = left + (at % nKey + (codes[at] === BLANK ? 0 : 0.5)) * wide;
      const y = above + (Math.floor(at / nKey) + 0.5) * tall - (lines.length - 1) * LINE / 2;
      lines.forEach((line, number) => context.fillText(codes[at] === BLANK ? line : clipped(context, line, wide - 2), x, y + number * LINE));
    });
  }

  function mark(context, box) {
    const { left, above, wide, tall, nQuery, nKey } = box;
    for (const { shape, cells } of own.marks) {
      context.strokeStyle = theme.get("target");
      context.lineWidth = tall >= 14 ? 2.5 : 1.5;
      for (const [row, column] of cells) {
        outlineShape(context, shape, left + (column + 0.5) * wide, above + (row + 0.5) * tall, Math.min(wide, tall) * 0.36);
      }
    }
    if (!own.selected) return;
    const [row, column] = own.selected;
    context.strokeStyle = theme.get("accent");
    context.lineWidth = 2;
    context.strokeRect(
      left + (column ?? 0) * wide, above + (row ?? 0) * tall,
      column === null ? nKey * wide : wide, row === null ? nQuery * tall : tall);
  }

  const square = (fill) => (context) => {
    context.fillStyle = fill(context);
    context.fillRect(0, 0, 18, 18);
    if (own.scale) return;
    context.strokeStyle = theme.get("line");
    context.strokeRect(0.5, 0.5, 17, 17);
  };

  /** The legend without the colour scale: [words, paints 18 x 18 pixels]. */
  function meanings() {
    const open = own.scale ? [] : [[own.rules[0], square(() => theme.get("paper"))]];
    const marks = own.marks.filter(({ name }) => name).map(({ shape, name }) => [name, (context) => {
      context.strokeStyle = theme.get("target");
      context.lineWidth = 2;
      outlineShape(context, shape, 9, 9, 6);
    }]);
    return [...open, ...rules.filter((rule) => own.rules[rule]).map((rule) => [own.rules[rule], square((context) => shut(context, rule))]), ...marks];
  }

  /** The colour bar with its ticks; null without ticks. */
  function bar(canvas, width) {
    const { scale } = theme;
    const beside = 20 * scale; // half of an end label
    const wide = Math.min(240 * scale, width - 2 * beside);
    const context = fit(canvas, wide + 2 * beside, 24 * scale);
    for (let x = 0; x < wide; x += 1) {
      context.fillStyle = css(colourAt(x / wide));
      context.fillRect(beside + x, 0, 1, 8 * scale);
    }
    context.fillStyle = theme.get("muted");
    context.font = theme.font(11);
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const [share, label] of own.scale.ticks) context.fillText(label, beside + share * wide, 12 * scale);
  }

  /** The ticks of the colour bar as lines of a legend. */
  const ticks = () => (own.scale?.ticks ?? []).map(([share, label]) => (
    [`${own.scale.title} ${label}`, square(() => css(colourAt(share)))]));

  return { paint, write, mark, meanings, bar, ticks };
}

function outlineShape(context, shape, x, y, radius) {
  context.beginPath();
  if (shape === "circle") context.arc(x, y, radius, 0, 2 * Math.PI);
  else if (shape === "square") context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
  else {
    context.moveTo(x, y - radius);
    for (const [dx, dy] of [[1, 0], [0, 1], [-1, 0]]) context.lineTo(x + dx * radius, y + dy * radius);
    context.closePath();
  }
  context.stroke();
}
