// Shared queries about a moment: existing threads, progress, and target positions.

import { lerp, smooth, within } from "./start_clock.js";

export const STREAM = { src: "source", tgt: "target" };

export const isLast = (scene, at) => at === scene.head.lanes.length - 1;

/** The number of threads of a lane, and the progress of the newest one along `u`. */
export function present(scene, at) {
  const { head, layout, moment } = scene;
  const lane = head.lanes[at];
  const geometry = layout.lanes[at];
  const [from, to] = [geometry.label[1], geometry.out[0]];
  const grows = isLast(scene, at) && lane.given < lane.tokens.length;
  const begins = isLast(scene, at) && head.lanes.length > 1;
  if (moment.step < 0) {
    // The source is read first; the decoder's start tokens wait for its first step.
    const reach = begins ? from : lerp(from, to, smooth(moment.read));
    return { count: lane.given, front: reach, query: null, from, to };
  }
  const query = isLast(scene, at) ? head.moments[moment.step].thread : null;
  const count = grows ? Math.min(lane.tokens.length, lane.given + moment.step) : lane.tokens.length;
  const front = query === null ? to : lerp(from, to, within(moment.p, 0, 0.55));
  return { count, front, query, from, to };
}

export function line(context, layout, u0, v0, u1, v1) {
  context.moveTo(...layout.P(u0, v0));
  context.lineTo(...layout.P(u1, v1));
}

export function curve(context, layout, [u0, v0], [u1, v1], [u2, v2], [u3, v3]) {
  context.moveTo(...layout.P(u0, v0));
  context.bezierCurveTo(...layout.P(u1, v1), ...layout.P(u2, v2), ...layout.P(u3, v3));
}

/** A smooth curve through points: at each, its tangent is parallel to the line between the neighbours. */
export function through(context, points) {
  context.moveTo(...points[0]);
  for (let at = 1; at < points.length; at += 1) {
    const [a, b, c, d] = [points[at - 2] ?? points[at - 1], points[at - 1], points[at], points[at + 1] ?? points[at]];
    const beside = (from, left, right, sign) => from.map((part, axis) => part + sign * (right[axis] - left[axis]) / 6);
    context.bezierCurveTo(...beside(b, a, c, 1), ...beside(c, b, d, -1), ...c);
  }
}

/** The step that reads a thread of the last lane; -1 if none has yet. */
export function stepOf({ head, moment }, lane, thread) {
  if (lane !== head.lanes.length - 1) return -1;
  return head.moments.findIndex((step, at) => at <= moment.step && step.thread === thread);
}

/** The target of the chosen token on its way from the candidates; null if it has none. */
export function landing({ head, moment }) {
  const { given, tokens } = head.lanes.at(-1);
  const { thread, chosen } = head.moments[moment.step];
  if (chosen === null) return null;
  if (head.lanes.length === 1 && given === tokens.length) return thread;
  const next = given + moment.step;
  return next < tokens.length ? next : null;
}

export const isLanding = (scene, thread) => scene.moment.p > 0.8 && scene.moment.p < 0.97 && landing(scene) === thread;
