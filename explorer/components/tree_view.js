import { clipped, fillToken, fit, hatching } from "./canvas.js";
import { el, rebuild, redraws } from "./dom.js";
import { keepScrolled, scrollInto, withEdges } from "./edges.js";
import { legendEntry } from "./legend.js";
import { percent, signed } from "./numbers.js";
import { followTheme } from "./palette.js";
import { glossOf, unpack } from "./payload.js";

/** The search tree: navigate by arrow keys or pointer, select a node by Enter or the button. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head } = unpack(data);
  const { nodes, words } = head;
  const low = nodes.some(({ token }) => glossOf(token)) ? 12 : 0; // the line of glosses
  const [WIDE, TALL, LEFT, TOP] = [82, 58 + low, 34, 22];
  const columns = Math.max(...nodes.map((node) => node.column)) + 1;
  const rows = Math.max(...nodes.map((node) => node.row)) + 1;
  const scroller = el("div", "scroller");
  const canvas = el("canvas");
  canvas.tabIndex = 0;
  canvas.dataset.at = "tree";
  canvas.setAttribute("role", "application"); // arrow keys belong to the tree
  canvas.setAttribute("aria-label", `${words.label}. ${words.hint}`);
  scroller.append(canvas);
  const legend = el("div", "legend");
  const line = el("div", "told");
  const readout = el("div", "readout");
  readout.setAttribute("aria-live", "polite");
  const take = el("button", "take", words.take);
  take.type = "button";
  take.dataset.at = "take";
  line.append(readout, take);

  let theme;
  let cursor = Math.min(root.cursor ?? 0, nodes.length - 1);
  let held = cursor; // the node chosen by click or key, not by hover
  const LINES = { sample: ["curves-4", [2, 3], 2.5, 3], greedy: ["accent", [7, 4], 2.5, -3], beam: ["target", [], 4, 0] };

  const x = (node) => LEFT + node.column * WIDE;
  const y = (node) => TOP + node.row * TALL;
  const radius = (node) => 3 + 11 * Math.sqrt(node.prob);

  function draw() {
    theme = followTheme(root);
    const context = fit(canvas, LEFT + columns * WIDE, TOP + rows * TALL);
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const node of nodes) if (node.parent !== null) edge(context, nodes[node.parent], node);
    nodes.forEach((node, index) => circle(context, node, index));
    drawLegend();
  }

  function edge(context, from, to) {
    const stroke = (colour, dash, width, shift) => {
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.lineWidth = width;
      context.beginPath();
      const [x0, y0, x1, y1] = [x(from), y(from) + shift, x(to), y(to) + shift];
      context.moveTo(x0, y0);
      context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
      context.stroke();
      context.setLineDash([]);
    };
    const through = Object.entries(LINES).filter(([name]) => to.lines.includes(name));
    if (!through.length) stroke(theme.get(to.fell ? "line" : "muted"), [], to.fell ? 1.5 : 1.5, 0);
    for (const [, [colour, dash, width, shift]] of through) stroke(theme.get(colour), dash, width, through.length > 1 ? shift : 0);
  }

  function circle(context, node, index) {
    const fallen = node.fell && !node.lines.length;
    context.beginPath();
    context.arc(x(node), y(node), radius(node), 0, 2 * Math.PI);
    context.fillStyle = fallen ? hatching(context, theme.get("blocked"), theme.get("hatch")) : theme.get("attention-2");
    context.fill();
    context.lineWidth = node.finished ? 3 : 1;
    context.strokeStyle = theme.get(fallen ? "hatch" : node.finished ? "ink" : "attention-3");
    context.stroke();
    if (index === cursor) {
      context.beginPath();
      context.arc(x(node), y(node), radius(node) + 4, 0, 2 * Math.PI);
      context.lineWidth = 2.5;
      context.strokeStyle = theme.get("accent");
      context.stroke();
    }
    context.fillStyle = theme.get(fallen || node.special ? "muted" : "ink");
    context.font = theme.font(13);
    const under = y(node) + 23;
    const text = clipped(context, node.token, WIDE - 8);
    const wide = context.measureText(text).width;
    context.clearRect(x(node) - wide / 2 - 2, under - 7, wide + 4, 14); // clear the lines below
    fillToken(context, text, glossOf(node.token), WIDE - 8, x(node), under);
    if (fallen) {
      context.font = theme.font(11);
      context.fillStyle = theme.get("muted");
      context.fillText(`× ${node.fell[0]} · ${signed(node.fell[1])}`, x(node), under + 13 + low);
    }
  }

  function drawLegend() {
    const entry = (text, paint) => legendEntry(text, [26, 12], paint);
    const present = ["beam", "greedy", "sample"].filter((name) => nodes.some((node) => node.lines.includes(name)));
    legend.replaceChildren(...present.map((name) => entry(words[name], (context) => {
      const [colour, dash, width] = LINES[name];
      context.strokeStyle = theme.get(colour);
      context.setLineDash(dash);
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(0, 6);
      context.lineTo(26, 6);
      context.stroke();
    })), entry(words.fallen, (context) => {
      context.fillStyle = hatching(context, theme.get("blocked"), theme.get("hatch"));
      context.beginPath();
      context.arc(13, 6, 5, 0, 2 * Math.PI);
      context.fill();
    }));
  }

  function say() {
    const node = nodes[cursor];
    const fate = node.fell ? `${words.fell} ${node.fell[0]} (${words.score} ${signed(node.fell[1])})`
      : node.finished ? words.finished : words.live;
    readout.replaceChildren(
      el("b", "", node.text), ` · ${words.prob} `, el("b", "number", percent(node.prob)),
      ` · ${words.logprob} `, el("b", "number", signed(node.logprob)),
      ` · ${words.score} `, el("b", "number", signed(node.score)), ` · ${fate}`,
      ...(node.lines.length ? [` · ${node.lines.map((name) => words[name]).join(", ")}`] : []));
  }

  function move(to, hold) {
    if (hold) held = to;
    if (to === cursor) return;
    cursor = root.cursor = to;
    draw();
    say();
  }

  function beside(key) {
    const node = nodes[cursor];
    if (key === "ArrowLeft") return node.parent;
    if (key === "ArrowRight") return node.children[0] ?? null;
    const way = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (!way) return undefined;
    const ahead = nodes.map((other, index) => [other, index])
      .filter(([other]) => other.column === node.column && (other.row - node.row) * way > 0)
      .sort(([a], [b]) => (a.row - b.row) * way);
    return ahead.length ? ahead[0][1] : null;
  }

  const under = (event) => {
    const index = nodes.findIndex((node) => Math.abs(event.offsetX - x(node)) < WIDE / 2 && Math.abs(event.offsetY - y(node) - 8) < TALL / 2);
    return index < 0 ? null : index;
  };
  canvas.addEventListener("pointermove", (event) => { const at = under(event); if (at !== null) move(at, false); });
  canvas.addEventListener("pointerleave", () => move(held, true));
  canvas.addEventListener("click", (event) => { const at = under(event); if (at !== null) move(at, true); });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") setTriggerValue("taken", cursor);
    else {
      const to = beside(event.key);
      if (to === undefined) return;
      if (to !== null) {
        move(to, true);
        scrollInto(scroller, x(nodes[to]) - WIDE / 2, WIDE);
        const top = y(nodes[to]) - TALL / 2;
        scroller.scrollTop = Math.min(top, Math.max(scroller.scrollTop, top + 2 * TALL - scroller.clientHeight));
      }
    }
    event.preventDefault();
  });
  take.addEventListener("click", () => setTriggerValue("taken", held));

  const scrollBack = keepScrolled(root, scroller);
  rebuild(root, legend, withEdges(scroller), line);
  say();
  const stop = redraws(root, draw);
  scrollBack();
  return stop;
}
