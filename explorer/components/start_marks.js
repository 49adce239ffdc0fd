// Drawings on the threads: embeddings, waves, images of heads, and token labels.

import { fillToken } from "./canvas.js";
import { glossOf } from "./payload.js";
import { clamp, within } from "./start_clock.js";
import { STREAM, isLanding, isLast, present, through } from "./start_scene.js";

/** The start of threads: the first embedding values, and the waves of positions. */
export function beginnings(scene, lane, at) {
  const { context, head, layout, strips } = scene;
  const { embedded, waves } = head.lanes[at];
  const { count, front, from, query } = present(scene, at);
  const here = (thread) => (thread < count ? (query === null || thread !== query ? 1 : within(front, from - 1, from + 24)) : 0.12);
  if (embedded) {
    const strip = strips[at];
    const [a, b] = [lane.embed[0] + 4, lane.embed[1] - 4];
    const tall = clamp(lane.gap * 0.62, 2, 13);
    context.imageSmoothingEnabled = false;
    context.save();
    if (layout.vertical) context.transform(0, 1, 1, 0, 0, 0);
    for (let thread = 0; thread < lane.n; thread += 1) {
      context.globalAlpha = here(thread);
      context.drawImage(strip, 0, thread, strip.width, 1, a, lane.v[thread] - tall / 2, b - a, tall);
    }
    context.restore();
  }
  if (waves) wavesOf(scene, lane, at, here);
}

/** One curve per dimension: its value at every thread, drawn across the threads. */
function wavesOf({ context, head, layout, colours, arrays }, lane, at, here) {
  const codes = arrays[`waves${at}`];
  const { waves: count, stream } = head.lanes[at];
  const [a, b] = lane.waves;
  const each = (b - a) / count;
  const at0 = (wave) => a + (wave + 0.5) * each;
  const value = (thread, wave) => (codes[thread * count + wave] - 127) / 127;
  context.lineWidth = 1.5;
  for (let wave = 0; wave < count; wave += 1) {
    const point = (thread) => [at0(wave) + value(thread, wave) * each * 0.46, lane.v[thread]];
    context.strokeStyle = colours.faint(STREAM[stream], 0.75 - 0.08 * wave);
    context.beginPath();
    through(context, Array.from({ length: lane.n }, (_, thread) => layout.P(...point(thread))));
    context.stroke();
    context.fillStyle = colours.faint(STREAM[stream], 0.95);
    if (lane.gap >= 6) for (let thread = 0; thread < lane.n; thread += 1) {
      context.globalAlpha = here(thread);
      context.beginPath();
      context.arc(...layout.P(...point(thread)), clamp(lane.gap / 8, 0.9, 2.2), 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
  }
}

/** The pattern of every head: rows appear together with their tokens. */
export function heads(scene, lane, at) {
  const { context, head, pictures, colours, look, moment } = scene;
  const { count, front, query } = present(scene, at);
  const grows = head.lanes[at].given < head.lanes[at].tokens.length;
  lane.blocks.forEach((block, b) => block.sites.forEach((site, s) => {
    const picture = pictures[`${at}.${b}.${s}`];
    const { keys } = head.lanes[at].blocks[b].sites[s];
    const reached = within(front, site.thumbs[0], site.thumbs[1]);
    let rows = grows && query !== null ? count - 1 + reached : count * (moment.step < 0 ? reached : 1);
    if (query !== null && !grows) rows = count;
    site.heads.forEach(({ x, y, size }, index) => {
      context.fillStyle = colours.ground;
      context.fillRect(x - 1.5, y - 1.5, size + 3, size + 3);
      context.fillStyle = colours["attention-0"];
      context.fillRect(x, y, size, size);
      const shown = clamp(rows, 0, lane.n);
      context.imageSmoothingEnabled = false;
      if (shown > 0) context.drawImage(picture, index * keys, 0, keys, shown, x, y, size, size * shown / lane.n);
      const chosen = look?.head && look.lane === at && look.block === b && look.site === s && look.head.index === index;
      context.strokeStyle = chosen ? colours.accent : colours.faint("muted", 0.45);
      context.lineWidth = chosen ? 2.5 : 1;
      context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
      if (query === null || reached <= 0) return;
      const tall = size / lane.n;
      context.fillStyle = colours.faint("target", reached);
      context.fillRect(x - 3, y + query * tall, 2.5, Math.max(tall, 1.5));
      context.fillRect(x + size + 0.5, y + query * tall, 2.5, Math.max(tall, 1.5));
    });
  }));
}

/** The labels that fit: the query's, then the keys' by weight, then all others. */
function shownLabels(lane, first, tall) {
  const shown = new Set();
  const fits = (thread) => [...shown].every((other) => Math.abs(lane.v[other] - lane.v[thread]) >= tall);
  for (const thread of first) if (thread !== null && thread !== undefined && fits(thread)) shown.add(thread);
  for (let thread = 0; thread < lane.n; thread += 1) if (fits(thread)) shown.add(thread);
  return shown;
}

export function labels(scene, lane, at) {
  const { context, head, layout, colours, theme, moment, look } = scene;
  const { tokens, special, stream } = head.lanes[at];
  const { count, query } = present(scene, at);
  const [a, b] = lane.label;
  const upright = layout.vertical && lane.gap < 46;
  const font = clamp(lane.gap * (layout.vertical ? 0.4 : 0.78), 11, 15);
  context.font = theme.font(font, 500);
  const looked = look?.lane === at ? look.thread : query;
  const shown = shownLabels(lane, [looked], layout.vertical && !upright ? 0 : font * theme.scale + 1);
  const written = head.moments.length && moment.step >= 0 && isLast(scene, at);
  for (const thread of shown) {
    if (thread >= count) continue;
    const flies = written && isLanding(scene, thread);
    const words = filled(scene, at, thread) ?? tokens[thread];
    const lit = thread === looked;
    context.globalAlpha = flies ? 0 : 1;
    context.fillStyle = special[thread] ? colours.muted : lit ? colours[STREAM[stream]] : colours.text;
    if (lit) context.font = theme.font(font, 700);
    if (!layout.vertical) {
      context.textAlign = "right";
      fillToken(context, words, glossOf(words), b - a - 8, b - 8, lane.v[thread]);
    } else if (upright) {
      context.save();
      context.translate(lane.v[thread], b - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      fillToken(context, words, glossOf(words), b - a - 8, 0, 0);
      context.restore();
    } else {
      context.textAlign = "center";
      fillToken(context, words, glossOf(words), lane.gap - 4, lane.v[thread], (a + b) / 2 - (glossOf(words) ? 5 : 0));
    }
    if (lit) context.font = theme.font(font, 500);
  }
  context.globalAlpha = 1;
  context.textAlign = "left";
  context.font = theme.font(12, 700);
  context.fillStyle = colours[STREAM[stream]];
  const title = head.lanes[at].title;
  if (layout.vertical) context.fillText(title, 6, lane.titleAt + 12);
  else { context.textAlign = "right"; context.fillText(title, b - 8, lane.titleAt + 12); }
}

/** The token of a mask filled in by an earlier step. */
function filled({ head, moment }, at, thread) {
  if (at !== head.lanes.length - 1 || head.lanes[at].given < head.lanes[at].tokens.length) return null;
  const step = head.moments.findIndex(({ thread: place, chosen }) => place === thread && chosen !== null);
  if (step < 0 || head.lanes.length > 1) return null;
  return moment.step > step || (moment.step === step && moment.p >= 0.97) ? head.moments[step].tokens[head.moments[step].chosen] : null;
}
