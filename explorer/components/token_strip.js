import { chip, el, rebuild, redraws, roving } from "./dom.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

/** One row of token chips that wraps; a click or Enter marks a position. */
export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".hl");
  const { head } = unpack(data);
  const { words } = head;
  const strip = el("div", "strip");
  strip.setAttribute("role", "group");
  strip.setAttribute("aria-label", head.title || words.label);

  const chips = head.tokens.map((token, index) => {
    const node = chip(head, index);
    node.dataset.at = index;
    const told = `${token}, ${words.position} ${index}`;
    node.title = told;
    node.setAttribute("aria-label", told);
    node.addEventListener("click", () => mark(index));
    const cell = el("div", "cell");
    cell.append(node);
    cell.append(el("span", "position", String(index)));
    strip.append(cell);
    return node;
  });

  function mark(selected) {
    chips.forEach((node, index) => {
      node.classList.toggle("selected", index === selected);
      node.setAttribute("aria-pressed", String(index === selected));
    });
  }

  const caption = el("div", `caption ${head.stream ?? ""}`, head.title);
  rebuild(root, ...(head.title ? [caption] : []), strip);
  mark(head.selected);
  roving(chips, head.selected ?? 0, (key, index) => ({ ArrowLeft: index - 1, ArrowRight: index + 1 }[key]));
  return redraws(root, () => { followTheme(root); });
}
