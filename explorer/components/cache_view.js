import { clipped, fit, hatching } from "./canvas.js";
import { el, rebuild, redraws } from "./dom.js";
import { withEdges } from "./edges.js";
import { css, followTheme, rgb } from "./palette.js";
import { unpack } from "./payload.js";

/** The cache after a step: existing columns filled, the newest outlined, the rest empty. */
export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { row, source, words } = head;
  const steps = head.n_bytes.length;
  let step = Math.min(root.step ?? head.step, steps - 1);
  const [LEFT, TOP, GAP] = [76, 26, 9];

  const bar = el("div", "bar-row");
  const scrub = el("input");
  Object.assign(scrub, { type: "range", min: 1, max: Math.max(2, steps), step: 1, value: step + 1, disabled: steps < 2 });
  scrub.setAttribute("aria-label", words.step);
  scrub.dataset.at = "cache-step";
  const count = el("span", "count");
  bar.append(scrub, count);
  const parts = el("div", "parts");
  const readout = el("div", "readout");
  readout.setAttribute("aria-live", "polite");

  const blocks = [];
  if (source) blocks.push({ name: "cross", axis: source, keys: arrays.cross_keys, values: arrays.cross_values });
  blocks.push({ name: "self", axis: row, keys: arrays.keys, values: arrays.values });
  for (const block of blocks) {
    const node = el("div", "block");
    block.canvas = el("canvas");
    block.canvas.setAttribute("role", "img");
    block.canvas.setAttribute("aria-label", `${words.label}. ${words[block.name]}`);
    const scroller = el("div", "scroller");
    scroller.append(block.canvas);
    node.append(el("div", `caption ${block.axis.stream}`, words[block.name]), withEdges(scroller));
    parts.append(node);
  }

  function draw(width) {
    const theme = followTheme(root);
    const columns = blocks.reduce((sum, { axis }) => sum + axis.tokens.length, 0);
    const wide = Math.max(9, Math.min(54, (width - blocks.length * (LEFT + 30)) / columns));
    const tall = Math.max(3, Math.min(9, 44 / head.heads));
    const lane = head.heads * tall;
    for (const block of blocks) {
      const n = block.axis.tokens.length;
      const there = block.name === "self" ? head.first + step + 1 : n;
      const context = fit(block.canvas, LEFT + n * wide + 4, TOP + head.layers * (2 * lane + 3 + GAP));
      const colour = theme.stream(block.axis.stream);
      const shade = rgb(colour);
      const spared = hatching(context, theme.get("blocked"), theme.get("hatch"));
      context.font = theme.font(12);
      context.textBaseline = "middle";
      context.textAlign = "center";
      const every = Math.ceil(34 / wide);
      for (let at = 0; at < n; at += every) {
        context.fillStyle = theme.get(at < there ? "ink" : "muted");
        context.fillText(clipped(context, block.axis.tokens[at], wide * every - 4), LEFT + (at + 0.5) * wide, 12);
      }
      for (let layer = 0; layer < head.layers; layer += 1) {
        [["keys", 0], ["values", lane + 3]].forEach(([what, shift]) => {
          const y = TOP + layer * (2 * lane + 3 + GAP) + shift;
          context.textAlign = "right";
          context.fillStyle = theme.get("muted");
          context.fillText(`${what === "keys" ? `${words.layer} ${layer + 1} · ` : ""}${words[what]}`, LEFT - 6, y + lane / 2);
          context.strokeStyle = theme.get("line");
          context.lineWidth = 1;
          context.strokeRect(LEFT - 0.5, y - 0.5, n * wide + 1, lane + 1);
          for (let one = 0; one < head.heads; one += 1) for (let at = 0; at < there; at += 1) {
            const share = block[what][(layer * head.heads + one) * n + at] / 255;
            context.fillStyle = one < head.kept ? css(shade, 0.12 + 0.88 * share) : spared;
            context.fillRect(LEFT + at * wide, y + one * tall, wide - 1, tall - (tall > 4 ? 1 : 0.5));
          }
        });
      }
      if (block.name === "self") {
        context.strokeStyle = theme.get("accent");
        context.lineWidth = 2;
        context.strokeRect(LEFT + (there - 1) * wide - 1, TOP - 3, wide + 1, head.layers * (2 * lane + 3 + GAP) - GAP + 6);
      }
    }
    say();
  }

  function say() {
    count.textContent = `${words.step} ${step + 1} / ${steps}`;
    const columns = head.first + step + 1 + (source ? source.tokens.length : 0);
    const bytes = head.n_bytes[step] * head.kept / head.heads;
    readout.replaceChildren(
      `${words.columns} `, el("b", "number", String(columns)), ` × ${words.layer} `, el("b", "number", String(head.layers)),
      " × 2 · ", el("b", "number", bytes.toLocaleString()), ` ${words.bytes}`);
  }

  scrub.addEventListener("input", () => { step = root.step = Number(scrub.value) - 1; draw(root.clientWidth); });
  const key = el("div", "key");
  const entry = (name, text) => { const item = el("span"); item.append(el("i", name), text); return item; };
  key.append(entry("shade", words.length), ...(head.kept < head.heads ? [entry("spared", words.spared)] : []));
  rebuild(root, bar, parts, key, readout);
  return redraws(root, draw);
}
