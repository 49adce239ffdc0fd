// Elements, focus and size. A user's text reaches the page only through textContent and fillText.

import { glossOf } from "./payload.js";

/** An element with a class and text. */
export function el(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/** Refills `root` and gives the focus back to the control that had it before, in its open menu. */
export function rebuild(root, ...children) {
  const focused = root.getRootNode().activeElement;
  const isOpen = Boolean(focused?.closest("details[open]"));
  root.replaceChildren(...children);
  if (focused?.dataset.at === undefined) return;
  const control = root.querySelector(`[data-at="${focused.dataset.at}"]`);
  if (isOpen && control?.closest("details")) control.closest("details").open = true;
  control?.focus({ preventScroll: true });
}

/** One tab stop for many controls: arrows move, Home and End jump. `next` maps a key to an index. */
export function roving(items, start, next) {
  items.forEach((item, index) => {
    item.tabIndex = index === start ? 0 : -1;
    item.addEventListener("keydown", (event) => {
      const to = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : next(event.key, index);
      if (to === undefined) return;
      event.preventDefault();
      if (!items[to]) return;
      items.forEach((other) => { other.tabIndex = -1; });
      items[to].tabIndex = 0;
      items[to].focus();
    });
  });
}

/**
 * Calls `draw` now and on every new width. Streamlit runs a view again for new data and for a
 * change of theme, but without the clean-up of the run before, so that is done here.
 */
export function redraws(root, draw) {
  root.stop?.();
  let width = -1;
  const again = () => { width = root.clientWidth; draw(width); };
  const sizes = new ResizeObserver(() => { if (root.clientWidth !== width) again(); });
  again();
  sizes.observe(root);
  root.stop = () => sizes.disconnect();
  return root.stop;
}

/** The element of a token, with its gloss. */
export function glossed(node, token) {
  const gloss = glossOf(token);
  if (gloss) node.append(el("i", "gloss", gloss));
  return node;
}

/** A token chip; `row` is a row of tokens as tokens_head sends it. */
export function chip(row, index, tag = "button") {
  const node = el(tag, "chip", row.tokens[index]);
  if (tag === "button") node.type = "button";
  if (row.special[index]) node.classList.add("special");
  if (row.stream) node.classList.add(row.stream);
  return glossed(node, row.tokens[index]);
}

/** A row of radio buttons named `name`, of which one is `chosen`. */
export function choice(name, label, options, chosen, set) {
  const group = el("div", "choice");
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-label", label);
  group.append(el("span", "caption", label));
  options.forEach(([option, text]) => {
    const line = el("label");
    const input = el("input");
    Object.assign(input, { type: "radio", name, value: String(option), checked: option === chosen });
    input.dataset.at = name + option;
    input.addEventListener("change", () => set(option));
    line.append(input, el("span", "", text));
    group.append(line);
  });
  return group;
}
