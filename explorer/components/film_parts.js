// The parts of a film: player, two token rows with lines, bars, growing matrices.

import { axisBox, cellUnder, drawAxes } from "./axes.js";
import { fit } from "./canvas.js";
import { chip, el, glossed } from "./dom.js";
import { withEdges } from "./edges.js";
import { keepPicture } from "./keep.js";
import { chipColours, tint } from "./links.js";
import { percent } from "./numbers.js";
import { css, rgb, shades } from "./palette.js";

const SPEEDS = [0.5, 1, 2, 4];

/** Buttons, scrubber and menus; `does` is called with the action. */
export function filmPlayer(words, head, does) {
  const node = el("div", "player");
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", `${words.label}. ${words.hint}`);
  const steps = head.frames.length;
  const button = (sign, name, action, place) => {
    const made = el("button", place === "play" ? "play" : "", sign);
    Object.assign(made, { type: "button", title: name });
    made.setAttribute("aria-label", name);
    made.dataset.at = place;
    made.addEventListener("click", action);
    node.append(made);
    return made;
  };
  const first = button("«", words.first, () => does.go(0), "first");
  const back = button("‹", words.back, () => does.by(-1), "back");
  const playing = button("", words.play, does.play, "play");
  const next = button("›", words.next, () => does.by(1), "next");
  const end = button("»", words.last, () => does.go(steps - 1), "last");
  const scrub = el("input");
  Object.assign(scrub, { type: "range", min: 1, max: Math.max(steps, 2), step: 1, disabled: steps < 2 });
  scrub.setAttribute("aria-label", words.step);
  scrub.dataset.at = "scrub";
  scrub.addEventListener("input", () => does.go(Number(scrub.value) - 1));
  const count = el("span", "count");
  node.append(scrub, count);

  const menu = (name, options, take) => {
    const label = el("label", "", words[name]);
    const select = el("select");
    select.dataset.at = name;
    options.forEach(([value, text]) => {
      const option = el("option", "", text);
      option.value = String(value);
      select.append(option);
    });
    select.addEventListener("change", () => take(select.value === "null" ? null : Number(select.value)));
    label.append(select);
    node.append(label);
    return select;
  };
  const numbers = (n) => Array.from({ length: n }, (_, index) => [index, String(index + 1)]);
  const layer = menu("layer", [[null, words.all_layers], ...numbers(head.layers)], (value) => does.look({ layer: value }));
  const heads = menu("head", [[null, words.all_heads], ...numbers(head.heads)], (value) => does.look({ head: value }));
  const pace = menu("speed", SPEEDS.map((value) => [value, `${value}×`]), does.pace);

  function show(scene, plays) {
    scrub.value = String(scene.step + 1);
    count.textContent = `${scene.step + 1} / ${steps}`;
    scrub.setAttribute("aria-valuetext", `${words.step} ${count.textContent}`);
    playing.classList.toggle("on", plays);
    playing.setAttribute("aria-label", plays ? words.pause : words.play);
    playing.title = plays ? words.pause : words.play;
    first.disabled = back.disabled = scene.step === 0;
    next.disabled = end.disabled = scene.step === steps - 1;
    playing.disabled = steps < 2;
    layer.value = String(scene.layer);
    heads.value = String(scene.head);
    heads.disabled = scene.layer === null;
    pace.value = String(scene.speed);
  }
  return { node, show };
}

/** Source above, the growing row below, and attention lines from its newest token. */
export function filmStage(head, theme, reading) {
  const { source, row, words } = head;
  const node = el("div", "stage");
  const lines = el("canvas", "lines");
  lines.setAttribute("aria-hidden", "true");
  const line = (tokens, name, title) => {
    const all = el("div", `row ${name}`);
    const chips = tokens.tokens.map((_, index) => chip(tokens, index, "span"));
    all.append(...chips);
    const caption = el("div", `caption ${name}`, title);
    node.append(...(name === "src" ? [caption, all] : [all, caption])); // the lines run between
    return chips;
  };
  node.append(lines);
  const above = source ? line(source, "src", words.source) : null;
  const below = line(row, "tgt", words.row);
  const colours = chipColours(theme);
  const ink = rgb(theme.get("accent"));
  const byteOf = (weight) => Math.round(254 * Math.sqrt(Math.min(1, weight)));

  function show(step, own, cross) {
    const reads = reading.reads(step);
    const nKey = row.tokens.length - 1;
    below.forEach((each, index) => {
      each.classList.toggle("later", index > reading.written(step) && index >= reads);
      each.classList.toggle("now", index === reading.query(step));
      each.classList.toggle("new", index === reading.written(step));
      if (reading.fills) {
        each.textContent = row.tokens[reading.shown(index, step)];
        each.classList.toggle("special", row.special[reading.shown(index, step)]);
      }
    });
    tint(below, (index) => (index < reads ? byteOf(own[step * nKey + index]) : undefined), colours);
    below.forEach((each, index) => { each.title = index < reads ? percent(own[step * nKey + index]) : ""; });
    const [width, height] = [node.clientWidth, node.clientHeight];
    const context = fit(lines, width, height);
    if (!above) return;
    const weight = (index) => cross[step * above.length + index];
    tint(above, (index) => byteOf(weight(index)), colours);
    const from = below[reading.query(step)];
    const [x, y] = [from.offsetLeft + from.offsetWidth / 2, from.offsetTop];
    above.forEach((each, index) => {
      each.title = percent(weight(index));
      const strength = weight(index);
      if (strength < 0.02) return;
      const [toX, toY] = [each.offsetLeft + each.offsetWidth / 2, each.offsetTop + each.offsetHeight];
      context.strokeStyle = css(ink, 0.15 + 0.85 * strength);
      context.lineWidth = 0.75 + 6 * strength;
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo(x, (y + toY) / 2, toX, (y + toY) / 2, toX, toY);
      context.stroke();
    });
  }
  return { node, show };
}

/** The candidates of a step: the model's probability, and the one after top-k and top-p. */
export function filmBars(words, take) {
  const node = el("div", "candidates");
  const bars = el("div", "bars");
  const key = el("div", "key");
  node.append(el("div", "caption", words.candidates), bars, key);

  function show(frame) {
    const cuts = frame.kept.some((kept, place) => !kept || Math.abs(frame.left[place] - frame.own[place]) > 1e-4);
    bars.classList.toggle("plain", !cuts);
    const top = Math.max(...frame.own, ...(cuts ? frame.left : [0]), 0.01);
    const focused = node.getRootNode().activeElement?.dataset?.at;
    bars.replaceChildren(...frame.tokens.flatMap((token, place) => {
      const chosen = place === frame.chosen;
      const name = glossed(el("button", `chip tgt${frame.kept[place] ? "" : " cut"}`, token), token);
      name.type = "button";
      name.dataset.at = `candidate${place}`;
      name.title = words.take;
      name.setAttribute("aria-label", `${token}: ${words.take}`);
      name.addEventListener("click", () => take(place));
      const track = el("div", "track");
      const bar = (kind, value, gone) => {
        const made = el("div", `bar ${kind}${gone ? " gone" : ""}${chosen ? " chosen" : ""}`);
        made.style.width = `${100 * value / top}%`;
        track.append(made);
      };
      bar("own", frame.own[place], cuts && !frame.kept[place]);
      if (cuts && frame.kept[place]) bar("left", frame.left[place], false);
      const mark = chosen ? ` ✓ ${frame.forced ? words.forced : ""}` : frame.kept[place] ? "" : ` · ${words.cut}`;
      const value = cuts && frame.kept[place] ? `${percent(frame.own[place])} → ${percent(frame.left[place])}` : percent(frame.own[place]);
      return [name, track, el("span", `told${chosen ? " chosen" : ""}`, value + mark)];
    }));
    if (focused) bars.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
    const entry = (colour, text) => {
      const item = el("span");
      const swatch = el("i");
      swatch.style.background = `var(--hl-${colour})`;
      item.append(swatch, text);
      return item;
    };
    key.replaceChildren(...(cuts ? [entry("attention-1", words.own), entry("attention-3", words.left), entry("target", words.chosen)] : []));
  }
  return { node, show };
}

/** Cross- and self-attention with one more row per step; a click on a row opens its step. */
export function filmMaps(head, theme, reading, go) {
  const { source, row, words } = head;
  const node = el("div", "pictures");
  const nSteps = head.frames.length;
  const asked = head.frames.map((_, step) => reading.query(step));
  const queries = {
    tokens: asked.map((at) => row.tokens[at]), special: asked.map((at) => row.special[at]),
    stream: "tgt", title: `${words.query} · ${words.tgt}`,
  };
  const own = { tokens: row.tokens.slice(0, -1), special: row.special.slice(0, -1), stream: "tgt", title: `${words.key} · ${words.tgt}` };
  const keys = source ? { cross: { ...source, title: `${words.key} · ${words.src}` }, self: own } : { self: own };
  const maps = Object.entries(keys).map(([kind, axis]) => {
    const canvas = Object.assign(el("canvas"), { role: "img", ariaLabel: words[kind] });
    const [scroller, part] = [el("div", "scroller"), el("div", "map")];
    scroller.append(canvas);
    const named = { type: "button", title: words.keep, ariaLabel: `${words.keep}: ${words[kind]}` };
    const keep = Object.assign(el("button", "keep", "↓"), named);
    keep.dataset.at = `keep-${kind}`;
    const caption = el("div", "caption", words[kind]);
    caption.append(" ", keep);
    part.append(caption, withEdges(scroller));
    node.append(part);
    const map = { kind, axis, canvas };
    keep.addEventListener("click", () => {
      const at = drawn[0];
      const title = `${words.step} ${at + 1}: ${row.tokens[reading.written(at)]} · ${words[kind]}`;
      keepPicture(canvas, () => show(...drawn), title, theme, `${head.file}-${kind}-${at + 1}`);
    });
    canvas.addEventListener("click", (event) => {
      const at = cellUnder(event, map.box);
      if (at) go(at[0]);
    });
    return map;
  });
  const colours = shades(theme);
  let drawn = null;

  function fitTo(width) {
    for (const map of maps) map.box = axisBox(width, queries, map.axis, theme, { least: 4, tallest: 170 });
  }

  function show(step, ownWeights, cross) {
    drawn = [step, ownWeights, cross];
    for (const { kind, axis, canvas, box } of maps) {
      const weights = kind === "self" ? ownWeights : cross;
      const context = fit(canvas, box.width, box.height);
      const nKey = axis.tokens.length;
      const top = weights.reduce((most, weight) => Math.max(most, weight), 0.01);
      context.strokeStyle = theme.get("line");
      context.strokeRect(box.left - 0.5, box.above - 0.5, nKey * box.wide + 1, nSteps * box.tall + 1);
      for (let query = 0; query <= step; query += 1) {
        const there = kind === "self" ? reading.reads(query) : nKey; // no cells for tokens not yet generated
        for (let at = 0; at < there; at += 1) {
          context.fillStyle = css(colours[Math.round(254 * Math.min(1, weights[query * nKey + at] / top))]);
          context.fillRect(box.left + at * box.wide, box.above + query * box.tall, box.wide - 1, box.tall - 1);
        }
      }
      const asRead = reading.fills && kind === "self" ? { ...axis, tokens: axis.tokens.map((_, at) => row.tokens[reading.read(at, step)]) } : axis;
      drawAxes(context, box, queries, asRead, theme, [step, null]);
      context.strokeStyle = theme.get("accent");
      context.lineWidth = 2;
      const there = kind === "self" ? reading.reads(step) : nKey;
      context.strokeRect(box.left - 1, box.above + step * box.tall - 1, there * box.wide + 1, box.tall + 1);
    }
  }
  return { node, fit: fitTo, show };
}
