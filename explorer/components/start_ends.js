// The ends of threads: the candidates, the chosen token moving back, and the light ahead of it.

import { fillToken } from "./canvas.js";
import { glossOf } from "./payload.js";
import { clamp, lerp, within } from "./start_clock.js";
import { STREAM, curve, landing, present, stepOf } from "./start_scene.js";

export function candidates(scene) {
  const { context, head, layout, colours, theme, moment, look } = scene;
  if (moment.step < 0) return;
  const last = head.lanes.length - 1;
  const looked = stepOf(scene, look?.lane, look?.thread);
  const isOther = looked >= 0 && looked !== moment.step;
  const { tokens, chances, chosen } = head.moments[isOther ? looked : moment.step];
  if (!tokens.length) return;
  const lane = layout.lanes.at(-1);
  const shown = isOther ? 1 : within(moment.p, 0.5, 0.68);
  if (shown <= 0) return;
  const { vertical } = layout;
  const row = vertical ? 26 : clamp((lane.v1 - lane.v0) / tokens.length, 22, 32);
  const x = vertical ? 10 : lane.out[0] + 22;
  const wide = (vertical ? layout.width - 20 : layout.width - x) - 4;
  const y0 = vertical ? lane.out[0] + 30 : (lane.v0 + lane.v1) / 2 - row * (tokens.length - 1) / 2;
  const name = vertical || tokens.some(glossOf) ? 110 : 76;
  const query = isOther ? look.thread : present(scene, last).query;
  context.lineWidth = 2;
  tokens.forEach((token, at) => {
    const y = y0 + at * row;
    const is = at === chosen;
    context.strokeStyle = colours.faint("target", shown * (is ? 0.9 : 0.14));
    context.beginPath();
    if (vertical) curve(context, layout, [lane.out[0], lane.v[query]], [lane.out[0] + 14, lane.v[query]], [lane.out[0] + 4, x + 4], [y - 8, x + 4]);
    else curve(context, layout, [lane.out[0], lane.v[query]], [lane.out[0] + 14, lane.v[query]], [lane.out[0] + 4, y], [x - 4, y]);
    if (!vertical || is) context.stroke();
    const tall = Math.min(20, row - 5);
    context.fillStyle = is ? colours.faint("target", 0.85) : colours.faint("muted", 0.28);
    context.beginPath();
    context.roundRect(x + name, y - tall / 2, Math.max(2, (wide - name - 44) * chances[at] * shown), tall, 4);
    context.fill();
    context.fillStyle = is ? colours.text : colours.muted;
    context.font = theme.font(is ? 16 : 13, is ? 700 : 500);
    context.textAlign = "left";
    if (isOther || !(is && landing(scene) !== null && moment.p > 0.8 && moment.p < 0.97)) fillToken(context, token, glossOf(token), name - 6, x, y);
    context.font = theme.font(12, is ? 700 : 400);
    context.fillText(share(chances[at]), x + name + Math.max(2, (wide - name - 44) * chances[at] * shown) + 6, y);
    if (is) scene.chosenAt = [x, y];
  });
  if (!isOther) fly(scene);
}

const share = (chance) => (chance > 0 && chance < 0.005 ? "< 1 %" : `${Math.round(100 * chance)} %`);

/** Moves the chosen token to its next input position. */
function fly(scene) {
  const { context, head, layout, colours, theme, moment } = scene;
  const thread = landing(scene);
  if (thread === null || !scene.chosenAt || moment.p <= 0.8 || moment.p >= 0.97) return;
  const lane = layout.lanes.at(-1);
  const way = within(moment.p, 0.8, 0.96);
  const { tokens, chosen } = head.moments[moment.step];
  context.font = theme.font(lerp(16, clamp(lane.gap * 0.78, 11, 15), way), 700);
  const wide = context.measureText(tokens[chosen]).width;
  const [x0, y0] = scene.chosenAt;
  const [x1, y1] = layout.vertical ? [lane.v[thread] - wide / 2, (lane.label[0] + lane.label[1]) / 2] : [lane.label[1] - 8 - wide, lane.v[thread]];
  const lift = layout.vertical ? 0 : -Math.sin(Math.PI * way) * 26;
  const [x, y] = [lerp(x0, x1, way), lerp(y0, y1, way) + lift];
  context.fillStyle = colours.ground;
  context.strokeStyle = colours.target;
  context.lineWidth = 1.5;
  context.beginPath();
  context.roundRect(x - 7, y - 12, wide + 14, 24, 7);
  context.fill();
  context.stroke();
  context.fillStyle = colours.text;
  context.textAlign = "left";
  context.fillText(tokens[chosen], x, y);
}

/** The light that runs ahead of a thread. */
export function pulses(scene) {
  const { context, head, layout, colours, moment } = scene;
  if (moment.whole) return;
  layout.lanes.forEach((lane, at) => {
    const { count, front, query, from, to } = present(scene, at);
    if (front <= from || front >= to) return;
    for (let thread = 0; thread < count; thread += 1) {
      if (query !== null && thread !== query) continue;
      const [x, y] = layout.P(front, lane.v[thread]);
      const size = query === null ? 2.4 : 4;
      context.fillStyle = colours.faint(STREAM[head.lanes[at].stream], 0.22);
      context.beginPath();
      context.arc(x, y, size * 2.4, 0, 7);
      context.fill();
      context.fillStyle = colours[STREAM[head.lanes[at].stream]];
      context.beginPath();
      context.arc(x, y, size, 0, 7);
      context.fill();
    }
  });
}
