import { axisBox, cellBeside, cellUnder, drawAxes, outlineCell } from "./axes.js";
import { fit, hatching } from "./canvas.js";
import { paintCells, pixelsOf } from "./cells.js";
import { el, rebuild, redraws } from "./dom.js";
import { scrollInto, withEdges } from "./edges.js";
import { keepPicture } from "./keep.js";
import { css, followTheme, shades } from "./palette.js";
import { BLOCKED, unpack } from "./payload.js";

const BAR = 240; // width of a colour bar in px
const BESIDE = 20; // px at its sides, for half of the end labels
const KEEP = 60; // px for the button in the same row

/** Heatmaps side by side; hover or the arrow keys describe a cell. */
export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const group = el("div", "panels");
  const panels = head.panels.map((each, at) => panel(root, at, each, arrays, head.words));
  group.append(...panels.map((each) => each.node));
  rebuild(root, group);
  panels.forEach((each) => each.begin());
  return redraws(root, () => {
    const theme = followTheme(root);
    panels.forEach((each) => each.draw(theme));
  });
}

/** { node, begin(), draw(theme) } of one heatmap. */
function panel(root, at, own, arrays, words) {
  const { queries, keys, texts } = own;
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];
  const codes = arrays["colours" + at];
  const said = new Uint16Array(arrays["said" + at].slice().buffer);
  const cursors = (root.cursors ??= {}); // a new payload keeps the keyboard's place
  const scrolled = (root.scrolls ??= {});
  let theme, box, colours;
  let cursor = cursors[at] ?? null;
  if (cursor && (cursor[0] >= nQuery || cursor[1] >= nKey)) cursor = null;

  const node = el("section", "panel");
  node.setAttribute("aria-label", own.title);
  const scroller = el("div", "scroller");
  const canvas = el("canvas");
  canvas.dataset.at = "cells" + at;
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application"); // arrow keys belong to the cells
  canvas.setAttribute("aria-label", `${own.title}. ${words.hint}`);
  scroller.append(canvas);
  const keep = el("button", "keep", "PNG");
  keep.type = "button";
  keep.title = words.keep;
  keep.setAttribute("aria-label", `${words.keep}: ${own.title}`);
  keep.dataset.at = "keep" + at;
  keep.onclick = () => keepPicture(canvas, paint, own.title, theme, own.file, meanings());
  const legend = el("div", "legend");
  const foot = el("div", "foot");
  foot.append(legend, keep);
  const readout = el("div", "readout");
  readout.setAttribute("aria-live", "polite");
  node.append(el("div", "caption", own.title), withEdges(scroller), foot, readout);

  function draw(now) {
    theme = now;
    colours = shades(theme, own.palette);
    paint();
    drawLegend();
    say();
  }

  function paint() {
    const byFinger = matchMedia("(pointer: coarse)").matches;
    const least = byFinger ? (nKey > 40 ? 9 : 18) : 4; // a mouse can hit small cells
    box = axisBox(node.clientWidth - 6, queries, keys, theme, { least, tallest: 480 });
    const { left, above, wide, tall } = box;
    const context = fit(canvas, box.width, box.height);
    const ground = hatching(context, theme.get("blocked"), theme.get("hatch"));
    paintCells(context, codes, [nQuery, nKey], [left, above, nKey * wide, nQuery * tall], pixelsOf(colours), ground);
    if (Math.min(wide, tall) >= 8) { // hairlines between the cells
      context.fillStyle = theme.get("paper");
      for (let key = 1; key < nKey; key += 1) context.fillRect(left + key * wide - 0.5, above, 1, nQuery * tall);
      for (let query = 1; query < nQuery; query += 1) context.fillRect(left, above + query * tall - 0.5, nKey * wide, 1);
    }
    drawAxes(context, box, queries, keys, theme, cursor ?? undefined);
    if (own.selected !== null) {
      context.strokeStyle = theme.get("accent");
      context.lineWidth = 2;
      context.strokeRect(left, above + own.selected * tall, nKey * wide, tall);
    }
    outlineCell(context, box, cursor, theme.get("ink"), 1.5);
  }

  const shade = (share) => css(colours[Math.round(254 * Math.min(Math.max(share, 0), 1))]);
  const blockedSwatch = (context, width, height) => {
    context.fillStyle = hatching(context, theme.get("blocked"), theme.get("hatch"));
    context.fillRect(0, 0, width, height);
  };

  /** The colour bar with its ticks, and the hatching if it occurs. */
  function drawLegend() {
    const bar = el("canvas");
    const { scale } = theme;
    const beside = BESIDE * scale;
    const wide = Math.min(BAR * scale, node.clientWidth - 2 * beside - KEEP * scale);
    const context = fit(bar, wide + 2 * beside, 24 * scale);
    for (let x = 0; x < wide; x += 1) {
      context.fillStyle = shade(x / wide);
      context.fillRect(beside + x, 0, 1, 8 * scale);
    }
    context.fillStyle = theme.get("muted");
    context.font = theme.font(11);
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const [share, label] of own.ticks) context.fillText(label, beside + share * wide, 12 * scale);
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `${own.scale}: ${own.ticks.map(([, label]) => label).join(", ")}`);
    const children = [el("span", "caption", own.scale), bar];
    if (codes.includes(BLOCKED)) {
      const swatch = el("canvas", "swatch");
      blockedSwatch(fit(swatch, 18, 14), 18, 14);
      children.push(swatch, el("span", "caption", words.blocked));
    }
    legend.replaceChildren(...children);
  }

  /** The legend of an exported picture: [words, paints 18 x 18 pixels]. */
  function meanings() {
    const lines = own.ticks.map(([share, label]) => [`${own.scale} ${label}`, (context) => {
      context.fillStyle = shade(share);
      context.fillRect(0, 0, 18, 18);
    }]);
    if (codes.includes(BLOCKED)) lines.push([words.blocked, (context) => blockedSwatch(context, 18, 18)]);
    return lines;
  }

  function say() {
    if (!cursor) { readout.textContent = words.hint; return; }
    const [query, key] = cursor;
    const text = texts[said[query * nKey + key]].replaceAll("\n", " · ");
    readout.replaceChildren(
      `${words.query} `, el("b", "", queries.tokens[query]), ` → ${words.key} `,
      el("b", "", keys.tokens[key]), " · ", el("b", "number", text));
  }

  function move(to) {
    if (String(to) === String(cursor)) return;
    cursor = cursors[at] = to;
    paint();
    say();
  }

  canvas.addEventListener("pointermove", (event) => move(cellUnder(event, box)));
  canvas.addEventListener("pointerdown", (event) => move(cellUnder(event, box))); // a finger points at once
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") move(null); });
  canvas.addEventListener("keydown", (event) => {
    const to = cellBeside(event.key, cursor ?? [0, 0], box);
    if (!to) return;
    move(cursor ? to : [0, 0]); // the first press only shows the first cell
    scrollInto(scroller, box.left + cursor[1] * box.wide, box.wide);
    event.preventDefault();
  });

  /** Call this once the panel is in the document, where it has a scroll position. */
  function begin() {
    const place = scrolled[at];
    scroller.addEventListener("scroll", () => { scrolled[at] = scroller.scrollLeft; });
    if (place) requestAnimationFrame(() => { scroller.scrollLeft = place; });
  }
  return { node, begin, draw };
}
