// The picture as text: buttons over its stations, hover texts, and all steps.

import { el, rebuild } from "./dom.js";
import { stepOf } from "./start_scene.js";

/** Words with their {values}. */
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** Calls `follow` for a click on a link, unless it opens another tab or window. */
export function onFollow(link, follow) {
  const { href } = link.attributes;
  link.onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    follow(href.value);
  };
}

/** A button over every attention sublayer, for keyboards and screen readers; a pointer has heads. */
export function place(node, { head, layout }, open) {
  const { words } = head;
  const made = [];
  head.lanes.forEach((lane, l) => lane.blocks.forEach((block, b) => block.sites.forEach((site, s) => {
    const { thumbs } = layout.lanes[l].blocks[b].sites[s];
    const { v0, v1 } = layout.lanes[l];
    const [x, y] = layout.P(thumbs[0], v0 - 6);
    const [x1, y1] = layout.P(thumbs[1], v1 + 6);
    const button = el("button");
    button.type = "button";
    button.dataset.at = `station${l}.${b}.${s}`;
    button.setAttribute("aria-label", fill(words.opens, { place: `${lane.title}, ${block.title}, ${site.title}`, heads: site.heads }));
    Object.assign(button.style, { left: `${x}px`, top: `${y}px`, width: `${x1 - x}px`, height: `${y1 - y}px` });
    button.onclick = () => open([l, b, s, 0]);
    made.push(button);
  })));
  rebuild(node, ...made);
}

export function reading(view, look) {
  const { head, attention } = view;
  const { words, lanes } = head;
  const lane = lanes[look.lane];
  const site = (b, s) => `${lane.blocks[b].title} · ${lane.blocks[b].sites[s].title}`;
  if (look.door) return words[look.door];
  if (look.head) return `${site(look.block, look.site)} · ${fill(words.open_head, { head: look.head.index + 1 })}`;
  const b = lane.blocks.length - 1;
  const s = lane.blocks[b].sites.length - 1;
  const then = attention.atStep(look.lane, b, s, stepOf(view, look.lane, look.thread));
  const weights = then ?? attention.row(look.lane, b, s, look.thread);
  const keys = lanes[lane.blocks[b].sites[s].role === "cross" ? 0 : look.lane].tokens;
  const best = weights.indexOf(Math.max(...weights));
  return `${fill(words.read_pair, { query: lane.tokens[look.thread], key: keys[best] })} · ${Math.round(100 * weights[best])} % · ${site(b, s)} · ${words.mean}`;
}

/** A text version: the input, and each step with its candidates. */
export function inWords({ lanes, moments, said }, words) {
  const parts = lanes.map((lane) => el("p", "", `${lane.title}: ${lane.tokens.join(" ")}`));
  const list = el("ol");
  moments.forEach(({ tokens, chances, chosen }) => {
    if (!tokens.length) return;
    const shares = tokens.map((token, at) => `${token} ${Math.round(100 * chances[at])} %`).join(", ");
    list.append(el("li", "", `${words.candidates}: ${shares}. ${words.chosen}: ${tokens[chosen]}`));
  });
  return [...parts, list, el("p", "", said)];
}
