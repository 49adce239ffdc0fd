// Paints the picture at one moment: threads, blocks, heads, arcs, candidates. Stateless.

import { clipped } from "./canvas.js";
import { clamp, lerp, within } from "./start_clock.js";
import { candidates, pulses } from "./start_ends.js";
import { beginnings, heads, labels } from "./start_marks.js";
import { STREAM, curve, line, present, stepOf } from "./start_scene.js";

const LEAST = 0.02; // smallest weight that is drawn

/** Paints `moment` ({ read, step, p, whole }) of the flow `head` in its `layout`. */
export function paint(context, view, moment, look) {
  const scene = { ...view, context, moment, look };
  const { layout } = view;
  context.clearRect(0, 0, layout.width, layout.height);
  if (layout.lanes.length > 1) source(scene, view);
  wholeLane(scene, layout.lanes.at(-1), layout.lanes.length - 1);
  candidates(scene);
  pulses(scene);
}

function wholeLane(scene, lane, at) {
  scene.context.lineCap = "round";
  scene.context.textBaseline = "middle";
  for (const part of [panels, threads, arcs, beginnings, heads, labels, titles]) part(scene, lane, at);
}

/** The source and its path to the target, cached as one image once it is read. */
function source(scene, view) {
  const { context, layout, moment, look } = scene;
  const draw = (onto) => {
    wholeLane({ ...scene, context: onto }, layout.lanes[0], 0);
    bus({ ...scene, context: onto });
  };
  if (moment.step < 0 || look?.lane === 0) { draw(context); return; }
  if (view.kept?.layout !== layout) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [context.canvas.width, context.canvas.height];
    const onto = canvas.getContext("2d");
    onto.setTransform(context.getTransform());
    draw(onto);
    view.kept = { layout, canvas };
  }
  context.save();
  context.resetTransform();
  context.drawImage(view.kept.canvas, 0, 0);
  context.restore();
}

function panels({ context, layout, colours }, lane) {
  const { vertical } = layout;
  lane.blocks.forEach((block) => {
    const [a, b] = block.u;
    const [c, d] = block.v;
    const box = vertical ? [c, a, d - c, b - a] : [a, c, b - a, d - c];
    context.beginPath();
    context.roundRect(...box, 10);
    context.fillStyle = colours.faint("line", 0.28);
    context.fill();
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.stroke();
  });
}

/** Names of blocks and sublayers, drawn last: arcs pass below the text. */
function titles({ context, head, layout, colours, theme }, lane, at) {
  const { vertical } = layout;
  context.font = theme.font(12, 600);
  context.textAlign = "left";
  context.lineJoin = "round";
  context.lineWidth = 5;
  context.strokeStyle = colours.ground;
  const write = (words, room, x, y) => {
    const shown = clipped(context, words, room);
    if (!vertical) context.strokeText(shown, x, y);
    context.fillStyle = colours.muted;
    context.fillText(shown, x, y);
  };
  lane.blocks.forEach((block, index) => {
    const [a, b] = block.u;
    const [c, d] = block.v;
    const { title, sites } = head.lanes[at].blocks[index];
    const openings = [`${title} · `, `${index + 1} · `, ""]; // the longest for which there is room
    if (vertical) {
      const names = openings.map((before) => before + sites.map((site) => site.title).join(" · "));
      const fits = names.find((name) => context.measureText(name).width <= d - c - 20);
      write(fits ?? names[1], d - c - 20, c + 8, a + 11);
      return;
    }
    const row = openings.map((before) => titleRow(context, sites, before, a, b)).find(Boolean);
    if (row) row.forEach(([name, x]) => write(name, b - a, x, lane.titleAt + 12));
    else if (b - a >= 14) write(String(index + 1), b - a, a + 2, lane.titleAt + 12);
  });
  const { embedded, waves, turns, given, tokens } = head.lanes[at];
  const next = lane === layout.lanes.at(-1) && head.moments.some((step) => step.tokens.length);
  const parts = [
    [embedded, lane.embed, head.words.embedding], [waves, lane.waves, turns ? head.words.rotation : head.words.position],
    [next, [lane.out[0] + (vertical ? 16 : 22)], given < tokens.length ? head.words.next_token : head.words.prediction],
  ];
  context.strokeStyle = colours.ground;
  for (const [is, [from], name] of parts) if (is) {
    const place = vertical ? [8, from - 7] : [from + 2, lane.titleAt + 12];
    context.strokeText(name, ...place);
    context.fillText(name, ...place);
  }
}

/** The names of sublayers above them, [name, x] each, the first after `before`; null where they need more room. */
function titleRow(context, sites, before, from, to) {
  let end = from - 8;
  const row = sites.map(({ title }, at) => {
    const name = at ? title : before + title;
    const x = Math.max(from + at * (to - from) / sites.length + 3, end + 8);
    end = x + context.measureText(name).width;
    return [name, x];
  });
  return end <= to + 6 ? row : null;
}

function threads(scene, lane, at) {
  const { context, head, layout, colours, look } = scene;
  const name = STREAM[head.lanes[at].stream];
  const { count, front, query, from, to } = present(scene, at);
  const thick = clamp(lane.gap / 9, 0.7, 1.6);
  for (let thread = 0; thread < lane.n; thread += 1) {
    const v = lane.v[thread];
    const there = thread < count;
    const lit = thread === (look?.lane === at ? look.thread : query);
    const reach = query === null || thread === query ? front : to;
    context.lineWidth = lit ? Math.max(2, thick * 1.8) : thick;
    if (!there || reach < to) {
      context.strokeStyle = colours.faint(name, 0.1);
      context.beginPath();
      line(context, layout, from, v, to, v);
      context.stroke();
    }
    if (!there) continue;
    context.strokeStyle = colours.faint(name, lit ? 1 : 0.42);
    context.beginPath();
    line(context, layout, from, v, reach, v);
    context.stroke();
  }
}

function bus(scene) {
  const { context, head, layout, colours, theme, moment } = scene;
  const [lane] = layout.lanes;
  const { bus: way } = layout;
  const ready = moment.step >= 0 ? 1 : within(moment.read, 0.86, 1);
  context.lineWidth = 1;
  context.strokeStyle = colours.faint("source", (0.1 + 0.35 * ready) * clamp(16 / lane.n, 0.4));
  context.beginPath();
  way.v.forEach((v, thread) => {
    // The lowest thread turns first, so that lines do not cross.
    const turn = way.turn + (lane.n - thread) * Math.min(1.5, 36 / lane.n);
    if (layout.vertical) curve(context, layout, [way.start, lane.v[thread]], [way.start + 10, lane.v[thread]], [way.start - 4, v], [way.start + 14, v]);
    else curve(context, layout, [way.start, lane.v[thread]], [way.start + turn, lane.v[thread]], [way.start + turn, v], [way.start - 4, v]);
    line(context, layout, layout.vertical ? way.start + 14 : way.start - 4, v, way.end, v);
  });
  context.stroke();
  if (layout.vertical) return;
  context.font = theme.font(12, 600);
  context.textAlign = "right";
  context.fillStyle = colours.faint("source", 0.4 + 0.6 * ready);
  context.fillText(clipped(context, head.words.memory, way.end - 8), way.end - 8, (way.v[0] + way.v.at(-1)) / 2);
}

/** One fan of arcs into a query: from the keys' threads, or from the source's bus. */
function fan(scene, lane, site, role, weights, query, strength) {
  const { context, layout, colours } = scene;
  const [a, b] = site.arcs;
  const end = lane.v[query];
  const keys = role === "cross" ? layout.bus.v : lane.v;
  const top = Math.max(...weights, LEAST);
  weights.forEach((weight, key) => {
    if (weight < LEAST) return;
    context.strokeStyle = colours.faint("accent", strength * (0.12 + 0.88 * weight / Math.max(top, 0.3)));
    context.lineWidth = 0.6 + 4.2 * weight;
    context.beginPath();
    if (role === "cross") {
      const start = lerp(site.thumbs[0] + 4, b - 6, 0.55 + 0.4 * key / keys.length);
      curve(context, layout, [start, keys[key]], [start, lerp(keys[key], end, 0.55)], [lerp(start, b, 0.2), end], [b, end]);
    } else curve(context, layout, [a, keys[key]], [lerp(a, b, 0.55), keys[key]], [lerp(a, b, 0.45), end], [b, end]);
    context.stroke();
  });
}

function arcs(scene, lane, at) {
  const { head, attention, moment, look } = scene;
  const { count, front, query } = present(scene, at);
  lane.blocks.forEach((block, b) => block.sites.forEach((site, s) => {
    const { role } = head.lanes[at].blocks[b].sites[s];
    const only = look?.head && look.lane === at && look.block === b && look.site === s ? look.head.index : undefined;
    if (look?.lane === at && look.thread !== undefined) {
      const then = attention.atStep(at, b, s, stepOf(scene, at, look.thread));
      fan(scene, lane, site, role, then ?? attention.row(at, b, s, look.thread), look.thread, 1);
      return;
    }
    if (query !== null) {
      const then = attention.atStep(at, b, s, moment.step, only) ?? attention.row(at, b, s, query, only);
      fan(scene, lane, site, role, then, query, within(front, site.arcs[0], site.arcs[1] + 4));
      return;
    }
    const passing = within(front, site.arcs[0], site.arcs[1] + 4);
    const left = moment.step < 0 ? 0.34 : 0.26;
    const bright = passing * lerp(0.9, left, within(front, site.arcs[1], site.arcs[1] + 120));
    if (bright > 0.01) for (let thread = 0; thread < count; thread += 1) {
      fan(scene, lane, site, role, strongest(attention.row(at, b, s, thread, only), lane.n), thread, bright * 0.8);
    }
  }));
}

/** The weights of a row drawn while all rows are shown; for a long text, only the largest. */
function strongest(weights, n) {
  const least = n > 20 ? Math.max(...weights) : 0.12;
  return weights.map((weight) => (weight < least ? 0 : weight));
}
