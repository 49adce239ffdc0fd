// One head opened: queries times keys give scores, the mask takes some, softmax makes weights of
// them, and these mix the values. The same cells travel from each matrix to the next.

import { clipped, fit, hatching } from "./canvas.js";
import { clamp, lerp, smooth } from "./start_clock.js";

const STAGES = ["scores", "mask", "softmax", "output"];
const MOVE = 1100; // ms from one stage to the next

/** Draws an opened head on `canvas`; `play()` from the scores on, `go(stage)` to one of them. */
export function openedHead(canvas, opened, arrays, colours, theme, words, told) {
  const [nq, nk] = [opened.queries.length, opened.keys.length];
  const top = Math.max(...opened.scores.flat().map(Math.abs), 1e-6);
  let [stage, running, plan, context, hatch] = [3, null, null, null, null];

  const colourOf = (kind, q, k) => {
    if (kind === 0) return colours.diverging[Math.round(127 + 127 * clamp(opened.scores[q][k] / top, -1, 1))];
    return colours.attention[Math.round(254 * Math.sqrt(opened.pattern[q][k]))];
  };

  function measure(wide) {
    const narrow = wide < 720;
    const label = clamp(wide * 0.09, 52, 96);
    const parts = narrow ? 1 : 3;
    const extra = narrow ? 0 : 2 * 54 + 2 * 26;
    const gap = 34;
    const room = (wide - label - extra - gap * (parts - 1) - 8) / parts;
    const cell = clamp(Math.min(room / nk, (narrow ? 300 : 330) / nq), 3, 34);
    const head = 74;
    const strip = 54;
    const x0 = label + (narrow ? 0 : strip + 12);
    const across = cell * nk + gap;
    const total = narrow ? label + cell * nk : x0 + across * 3 - gap + extra / 2;
    const shift = Math.max(0, (wide - total) / 2);
    return {
      wide, narrow, cell, head, label, strip, shift,
      tall: head + cell * nq + (narrow ? 10 : 62),
      x: (kind) => shift + x0 + (narrow ? 0 : kind * across),
      zx: shift + x0 + across * 3 - gap + 26,
    };
  }

  function box(x, y, colour, open) {
    const size = plan.cell;
    const inner = Math.max(size - (size > 7 ? 1 : 0.3), 1);
    context.fillStyle = open ? `rgb(${colour[0]},${colour[1]},${colour[2]})` : hatch;
    context.fillRect(x, y, inner, inner);
  }

  function strips(name, x, y, count, across, wide) {
    const codes = arrays[`open_${name}`];
    if (!codes) return;
    const size = codes.length / count;
    const long = wide / size;
    for (let at = 0; at < count; at += 1) for (let d = 0; d < size; d += 1) {
      const value = (codes[at * size + d] - 127) / 127;
      context.fillStyle = colours.faint({ q: "query", k: "key", v: "value", z: "accent" }[name], Math.abs(value) ** 0.7 * 0.95);
      if (across) context.fillRect(x + at * plan.cell, y + d * long, Math.max(plan.cell - 1, 1), long);
      else context.fillRect(x + d * long, y + at * plan.cell, long, Math.max(plan.cell - 1, 1));
    }
  }

  function named(text, name, x, y) {
    context.font = theme.font(12, 700);
    context.fillStyle = colours[name];
    context.textAlign = "left";
    context.fillText(text, x, y);
  }

  function titles(done) {
    context.textAlign = "left";
    context.font = theme.font(13, 700);
    const names = plan.narrow ? [STAGES[Math.min(2, Math.round(done))]] : STAGES.slice(0, 3);
    names.forEach((name, kind) => {
      context.fillStyle = done >= kind - 0.5 || plan.narrow ? colours.text : colours.faint("muted", 0.5);
      context.fillText(words[name], plan.x(kind), 10);
    });
  }

  function draw(done) {
    const { cell, head, narrow } = plan;
    context.clearRect(0, 0, plan.wide, plan.tall);
    context.textBaseline = "middle";
    titles(done);
    const small = clamp(cell * 0.7, 9, 13);
    context.font = theme.font(small, 500);
    context.fillStyle = colours.query;
    context.textAlign = "right";
    opened.queries.forEach((token, q) => {
      if (cell >= 9 || q % 3 === 0) context.fillText(clipped(context, token, plan.label - 6), plan.shift + plan.label - 6, head + (q + 0.5) * cell);
    });
    context.textAlign = "left";
    for (const kind of narrow ? [0] : [0, 1, 2]) {
      if (!narrow && done < kind - 0.4) continue;
      context.fillStyle = colours.key;
      opened.keys.forEach((token, k) => {
        if (cell < 9 && k % 3) return;
        context.save();
        context.translate(plan.x(kind) + (k + 0.5) * cell, head - 5);
        context.rotate(-Math.PI / 3.2);
        context.fillText(clipped(context, token, 62), 0, 0);
        context.restore();
      });
    }
    if (!narrow) {
      const below = head + cell * nq + 8;
      strips("q", plan.x(0) - plan.strip - 8, head, nq, false, plan.strip);
      strips("k", plan.x(0), below, nk, true, 40);
      named(words.query, "query", plan.x(0) - plan.strip - 8, below + 10);
      named(words.key, "key", plan.x(0) + cell * nk + 6, below + 10);
      context.globalAlpha = smooth(done - 2);
      strips("v", plan.x(2), below, nk, true, 40);
      named(words.value, "value", plan.x(2) + cell * nk + 6, below + 10);
      context.globalAlpha = 1;
    }
    matrix(done);
    if (!narrow && done > 2) {
      context.globalAlpha = smooth(done - 2);
      context.font = theme.font(13, 700);
      context.fillStyle = colours.accent;
      context.fillText(words.output, plan.zx, 10);
      strips("z", plan.zx, head, nq, false, plan.strip);
      context.globalAlpha = 1;
    }
  }

  function matrix(done) {
    const { cell, head, narrow } = plan;
    for (let kind = 0; kind < 3; kind += 1) {
      const ready = clamp(done - kind + 1);
      if (kind && ready <= 0) break;
      for (let q = 0; q < nq; q += 1) for (let k = 0; k < nk; k += 1) {
        const open = opened.allowed[q][k] === 1;
        const y = head + q * cell;
        if (kind === 0) {
          if (!narrow || done < 1) box(plan.x(0) + k * cell, y, colourOf(0, q, k), true);
          continue;
        }
        if (narrow && done >= kind + 1 && kind < 2) continue;
        // Cells leave in reading order and move to their targets.
        const own = smooth(clamp(ready * 1.7 - 0.7 * (q + k / nk) / nq));
        if (own <= 0) continue;
        const from = colourOf(0, q, k);
        const to = kind === 1 ? from : colourOf(2, q, k);
        const colour = from.map((part, c) => Math.round(lerp(part, to[c], own)));
        const x = lerp(plan.x(kind - 1), plan.x(kind), own) + k * cell;
        const gone = !open && own > (kind === 1 ? 0.55 : 0);
        box(x, y, colour, !gone);
      }
    }
  }

  function run(from, to) {
    cancelAnimationFrame(running);
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (still || from === to) { draw(to); return; }
    const began = performance.now();
    const step = (now) => {
      const done = Math.min(to, from + (now - began) / MOVE);
      if (!canvas.isConnected) return;
      draw(done);
      const now2 = Math.min(3, Math.floor(done + 0.001));
      if (now2 !== stage) { stage = now2; told(stage); }
      if (done < to) running = requestAnimationFrame(step);
    };
    running = requestAnimationFrame(step);
  }

  return {
    stages: STAGES,
    /** Resizes the canvas and draws the current stage. */
    fit(wide) {
      plan = measure(wide);
      context = fit(canvas, wide, plan.tall);
      hatch = hatching(context, colours.blocked, colours.hatch);
      draw(stage);
    },
    play() { stage = 0; told(0); run(0, 3); },
    go(to) { const from = Math.min(stage, to); const was = stage; stage = to; told(to); run(to > was ? from : to, to); },
    /** The cell under the pointer: [stage, query, key], or null. */
    cellAt(x, y) {
      const q = Math.floor((y - plan.head) / plan.cell);
      for (const kind of plan.narrow ? [0] : [0, 1, 2]) {
        const k = Math.floor((x - plan.x(kind)) / plan.cell);
        if (q >= 0 && q < nq && k >= 0 && k < nk) return [plan.narrow ? Math.min(2, stage) : kind, q, k];
      }
      return null;
    },
    stage: () => stage,
  };
}
