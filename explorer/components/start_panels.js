// Panels of the picture: one head, the waves of positions, the decoding steps.

import { fit } from "./canvas.js";
import { el } from "./dom.js";
import { percent, signed } from "./numbers.js";
import { clamp } from "./start_clock.js";
import { openedHead } from "./start_open.js";
import { through } from "./start_scene.js";
import { onFollow } from "./start_words.js";

/** A panel with a title, links to its pages and a button that closes it. */
function panel(title, words, links, close) {
  const node = el("section", "open");
  node.setAttribute("aria-label", title);
  const top = el("header");
  const button = el("button", "close", "×");
  button.setAttribute("aria-label", words.close);
  button.dataset.at = "close";
  button.onclick = close;
  top.append(el("h2", "", title));
  for (const [label, href, follow] of links) {
    const link = el("a", "", label);
    link.href = href;
    onFollow(link, follow);
    top.append(link);
  }
  top.append(button);
  node.append(top);
  return node;
}

export function headPanel(view, close, follow, open) {
  const { head, arrays, colours, theme } = view;
  const { words, opened, links } = head;
  const [lane, block, site] = opened.at;
  const place = head.lanes[lane].blocks[block];
  const title = `${place.title} · ${place.sites[site].title} · ${words.open_head.replace("{head}", opened.head + 1)}`;
  const ways = [["head", words.to_head], ["heads", words.to_heads], ["masks", words.to_masks]].filter(([to]) => links[to]);
  const node = panel(title, words, ways.map(([to, label]) => [label, links[to], follow]), close);
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title}: ${words.scores}, ${words.mask}, ${words.softmax}, ${words.output}`);
  const stages = el("div", "stages");
  stages.setAttribute("role", "group");
  stages.setAttribute("aria-label", words.stage);
  const readout = el("p", "readout");
  const isOpen = opened.allowed.every((row) => row.every(Boolean));
  const told = [words.told_scores, isOpen ? words.told_open : words.told_mask, words.told_softmax, words.told_output];
  const inside = openedHead(canvas, opened, arrays, colours, theme, words, (now) => {
    [...stages.children].forEach((button, at) => button.setAttribute("aria-pressed", String(at === now)));
    readout.textContent = told[now];
  });
  const count = place.sites[site].heads;
  for (const [name, sign, to] of [["head_before", "‹", opened.head - 1], ["head_after", "›", opened.head + 1]]) {
    const button = el("button", "other", sign);
    button.type = "button";
    button.dataset.at = name;
    button.setAttribute("aria-label", words[name]);
    button.onclick = () => open([lane, block, site, (to + count) % count]);
    node.querySelector("h2")[name === "head_before" ? "before" : "after"](button);
  }
  inside.stages.forEach((name, at) => {
    const button = el("button", name, `${at + 1} ${words[name]}`);
    button.type = "button";
    button.dataset.at = `stage${at}`;
    button.onclick = () => inside.go(at);
    stages.append(button);
  });
  const key = el("p", "qkv");
  for (const name of ["query", "key", "value"]) key.append(el("span", name, words[name]));
  if (opened.whole[0] > opened.queries.length || opened.whole[1] > opened.keys.length) {
    const [n, all] = [Math.max(opened.queries.length, opened.keys.length), Math.max(...opened.whole)];
    key.append(el("span", "", words.shown_of.replace("{shown}", n).replace("{all}", all)));
  }
  canvas.onpointermove = ({ offsetX, offsetY }) => {
    const cell = inside.cellAt(offsetX, offsetY);
    if (!cell) return;
    const [, q, k] = cell;
    const pair = words.read_pair.replace("{query}", opened.queries[q]).replace("{key}", opened.keys[k]);
    const weight = opened.allowed[q][k] ? percent(opened.pattern[q][k]) : words.blocked;
    readout.textContent = `${pair} · ${words.read_score.replace("{score}", signed(opened.scores[q][k]))} · ${weight}`;
  };
  node.append(stages, canvas, readout, key);
  node.fitTo = (wide) => inside.fit(wide);
  node.begin = () => inside.play();
  return node;
}

export function wavesPanel(view, close, follow) {
  const { head, arrays, colours, theme } = view;
  const { words, links, lanes } = head;
  const at = lanes.length - 1;
  const from = lanes.findIndex((lane) => lane.waves);
  const node = panel(words.waves, words, links.positions ? [[words.to_positions, links.positions, follow]] : [], close);
  if (from < 0) {
    node.append(el("p", "readout", words.no_waves));
    node.fitTo = () => {};
    return node;
  }
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", words.waves);
  node.append(canvas, el("p", "readout", lanes[from].turns ? words.turns : words.told_waves));
  node.fitTo = (wide) => {
    const lane = lanes[from];
    const codes = arrays[`waves${from}`];
    const [count, n] = [lane.waves, lane.tokens.length];
    const row = clamp(300 / count, 34, 56);
    const context = fit(canvas, wide, row * count + 42);
    const [left, right] = [16, wide - 16];
    const x = (thread) => (n === 1 ? (left + right) / 2 : left + thread * (right - left) / (n - 1));
    context.textBaseline = "middle";
    for (let wave = 0; wave < count; wave += 1) {
      const middle = row * (wave + 0.5);
      const y = (thread) => middle - (codes[thread * count + wave] - 127) / 127 * row * 0.42;
      context.strokeStyle = colours.faint("line", 1);
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(left, middle);
      context.lineTo(right, middle);
      context.stroke();
      context.strokeStyle = colours[at === 0 ? "target" : "source"];
      context.lineWidth = 2.2;
      context.beginPath();
      through(context, lane.tokens.map((_, thread) => [x(thread), y(thread)]));
      context.stroke();
      context.fillStyle = context.strokeStyle;
      for (let thread = 0; thread < n; thread += 1) {
        context.beginPath();
        context.arc(x(thread), y(thread), 3, 0, 7);
        context.fill();
      }
    }
    context.fillStyle = colours.text;
    context.font = theme.font(13);
    context.textAlign = "center";
    const every = Math.ceil(n * 58 / wide);
    lane.tokens.forEach((token, thread) => {
      if (thread % every === 0) context.fillText(token, clamp(x(thread), 24, wide - 24), row * count + 18);
    });
  };
  return node;
}

export function stepsPanel(view, close, follow, go) {
  const { words, links, moments } = view.head;
  const node = panel(words.steps, words, links.steps ? [[words.to_steps, links.steps, follow]] : [], close);
  const list = el("ol", "steps");
  moments.forEach((moment, at) => {
    if (!moment.tokens.length) return;
    const item = el("li");
    const button = el("button");
    button.type = "button";
    button.dataset.at = `step${at}`;
    button.onclick = () => go(at);
    moment.tokens.slice(0, 4).forEach((token, place) => {
      const chip = el("span", place === moment.chosen ? "chip tgt chosen" : "chip", token);
      chip.style.setProperty("--share", moment.chances[place]);
      chip.append(el("small", "", percent(moment.chances[place])));
      button.append(chip);
    });
    item.append(button);
    list.append(item);
  });
  if (!list.children.length) node.append(el("p", "readout", words.nothing));
  node.append(list);
  node.fitTo = () => {};
  return node;
}
