import { chip, el, rebuild, redraws, roving } from "./dom.js";
import { percent } from "./numbers.js";
import { css, followTheme, inkOn, ramp } from "./palette.js";
import { BLOCKED, unpack, weightOf } from "./payload.js";

/** One row of token chips that wraps; a click or Enter picks a position. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { words } = head;
  const strip = el("div", "strip");
  strip.setAttribute("role", "group");
  strip.setAttribute("aria-label", head.title || words.label);

  const chips = head.tokens.map((token, index) => {
    const node = chip(head, index);
    node.dataset.at = index;
    const code = arrays.cells[index];
    const value = code === BLOCKED ? words.blocked : head.tinted ? `${words.value} ${percent(weightOf(code))}` : "";
    const told = [token, `${words.position} ${index}`, value].filter(Boolean).join(", ");
    node.title = told;
    node.setAttribute("aria-label", told);
    node.addEventListener("click", () => { mark(index); setTriggerValue("picked", index); });
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

  function draw() {
    const theme = followTheme(root);
    const colours = ramp(theme);
    chips.forEach((node, index) => {
      const code = arrays.cells[index];
      node.classList.toggle("blocked", code === BLOCKED);
      if (!head.tinted || code === BLOCKED) return;
      node.style.background = css(colours[code]);
      node.style.color = inkOn(colours[code]);
    });
  }

  const caption = el("div", `caption ${head.stream ?? ""}`, head.title);
  rebuild(root, ...(head.title ? [caption] : []), strip);
  mark(head.selected);
  roving(chips, head.selected ?? 0, (key, index) => ({ ArrowLeft: index - 1, ArrowRight: index + 1 }[key]));
  return redraws(root, draw);
}
