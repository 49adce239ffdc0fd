// Where everything is. `u` runs with the model, `v` across the threads: left to right and down on a
// wide screen, down and to the right on a narrow one.

import { glossOf } from "./payload.js";
import { clamp, lerp } from "./start_clock.js";

const NARROW = 720;
const OUT = 236;
const TITLE = 24;
const NAME = 14; // the line of a part's name on a narrow screen

/**
 * The geometry of all lanes for a width and the height that there is `room` for; `zoom` 1 makes heads
 * as large as they can be.
 */
export function layoutOf(head, width, zoom, measure, room) {
  const vertical = width < NARROW;
  const layout = { vertical, width, lanes: [], P: vertical ? (u, v) => [v, u] : (u, v) => [u, v] };
  const place = vertical ? narrowLane : wideLane;
  let offset = 0;
  head.lanes.forEach((lane, index) => {
    const made = place({ layout, head, index, zoom, measure, room }, lane, offset);
    layout.lanes.push(made);
    offset = made.end;
    if (index < head.lanes.length - 1) offset += busRoom(layout, made);
  });
  layout.height = Math.ceil(offset);
  if (layout.lanes.length > 1) layout.bus = busOf(layout);
  return layout;
}

const busRoom = (layout, lane) => (layout.vertical ? 14 : clamp(lane.n * 2.4, 18, 44) + 16);

function spread(lane, from, to) {
  const n = lane.tokens.length;
  const gap = Math.min((to - from) / n, 64);
  const first = (from + to - gap * (n - 1)) / 2;
  return { n, gap, v: Array.from({ length: n }, (_, at) => first + at * gap) };
}

/** The largest squares for `count` heads that fit into a box. */
function gridOf(count, wide, tall, most) {
  let best = { size: 0, columns: 1 };
  for (let columns = 1; columns <= count; columns += 1) {
    const rows = Math.ceil(count / columns);
    const size = Math.min((wide - 2) / columns, (tall - 2) / rows, most + 4) - 4;
    if (size > best.size) best = { size, columns };
  }
  return { size: Math.max(best.size, 3), columns: best.columns, rows: Math.ceil(count / best.columns) };
}

function squares(count, uBox, vBox, most, vertical) {
  const [wide, tall] = vertical ? [vBox[1] - vBox[0], uBox[1] - uBox[0]] : [uBox[1] - uBox[0], vBox[1] - vBox[0]];
  const { size, columns, rows } = gridOf(count, wide, tall, most);
  const pitch = size + 4;
  const [x, y] = vertical ? [vBox[0], uBox[0]] : [uBox[0], vBox[0]];
  const left = x + (wide - columns * pitch + 4) / 2;
  const top = y + (tall - rows * pitch + 4) / 2;
  return Array.from({ length: count }, (_, at) => ({
    x: left + (at % columns) * pitch, y: top + Math.floor(at / columns) * pitch, size,
  }));
}

const labelsOf = (lane, measure) => clamp(Math.max(...lane.tokens.map(measure)) + 16, 54, 160);

function wideLane({ layout, head, zoom, measure, room }, lane, top) {
  const n = lane.tokens.length;
  const alone = head.lanes.length === 1;
  // The picture must fit on the screen together with the elements above it.
  const [least, most] = alone ? [330, clamp(room - 50, 330, 560)] : [158, clamp((room - 150) / 2, 158, 320)];
  const usual = clamp(n * (n > 24 ? 9 : 21), least, most);
  const tall = lerp(usual, Math.max(usual, alone ? 560 : 300), zoom);
  const v0 = top + TITLE + 8;
  const labels = labelsOf(lane, measure);
  const common = Math.max(...head.lanes.map((each) => labelsOf(each, measure)));
  let u = common;
  const made = { ...spread(lane, v0, v0 + tall), v0, v1: v0 + tall, label: [common - labels, common], titleAt: top };
  const take = (size) => { const from = u; u += size; return [from, u]; };
  made.embed = take(lane.embedded ? 84 : 10);
  made.waves = take(lane.waves ? 84 : 10);
  u += 14;
  const to = layout.width - OUT;
  const count = lane.blocks.length;
  const between = clamp(140 / count, 4, 16);
  const size = (to - u - between * count) / count;
  made.blocks = lane.blocks.map((block) => {
    const [from, end] = take(size);
    u += between;
    const each = (end - from) / block.sites.length;
    return { u: [from, end], v: [v0 - 10, v0 + tall + 10], sites: block.sites.map((site, at) => {
      const a = from + at * each;
      const share = lerp(alone ? 0.66 : 0.6, 0.98, zoom);
      const thumbs = [a + 4, a + each * share];
      return { thumbs, arcs: [a + each * share, a + each - 2], heads: squares(site.heads, thumbs, [v0 - 6, v0 + tall + 6], 130, false) };
    }) };
  });
  made.out = [to, layout.width];
  made.end = v0 + tall + 14;
  return made;
}

function narrowLane({ layout, head, index, zoom }, lane, top) {
  const margin = head.lanes.length > 1 && index > 0 ? 30 : 4;
  const [left, right] = [6, layout.width - margin];
  let u = top + TITLE;
  const take = (size) => { const from = u; u += size; return [from, u]; };
  const made = { ...spread(lane, left, right), v0: left, v1: right, titleAt: top };
  made.label = take(lane.tokens.some(glossOf) ? (made.gap >= 46 ? 38 : 112) : made.gap >= 46 ? 26 : 74);
  u += lane.embedded ? NAME : 0;
  made.embed = take(lane.embedded ? 34 : 6);
  u += lane.waves ? NAME : 0;
  made.waves = take(lane.waves ? 72 : 6);
  u += 8;
  made.blocks = lane.blocks.map((block) => {
    const from = u;
    u += 20;
    const sites = block.sites.map((site) => {
      const columns = Math.min(site.heads, zoom > 0.5 ? 4 : 8);
      const size = Math.min((right - left) / columns - 4, lerp(38, 84, zoom));
      const thumbs = take(Math.ceil(site.heads / columns) * (size + 4) + 6);
      const arcs = take(lerp(52, 16, zoom));
      return { thumbs, arcs, heads: squares(site.heads, thumbs, [left, right], size, true) };
    });
    const box = { u: [from, u], v: [left - 5, right + 4], sites };
    u += 8;
    return box;
  });
  const isLast = index === head.lanes.length - 1;
  made.out = take(isLast ? 196 : 12);
  made.end = u;
  return made;
}

/** The encoder's output led to every cross-attention: one line per source thread. */
function busOf(layout) {
  const [source, target] = layout.lanes;
  const n = source.n;
  const last = target.blocks.at(-1).u[1];
  const room = layout.vertical ? 18 : busRoom(layout, source) - 18;
  const gap = Math.min(room / Math.max(1, n), 3);
  const from = layout.vertical ? layout.width - 4 - gap * n : source.end + 6;
  return {
    v: Array.from({ length: n }, (_, at) => from + at * gap),
    start: source.out[0],
    end: layout.vertical ? last : target.blocks[0].u[0],
    turn: layout.vertical ? 12 : 60,
  };
}
