import { chip, el, rebuild, redraws } from "./dom.js";
import { withEdges } from "./edges.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

/** A training batch: below every input token, its label and loss. */
export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".hl");
  const { head } = unpack(data);
  const { rows, padding, words } = head;
  followTheme(root);
  const top = Math.max(1, ...rows.flatMap((row) => row.losses));

  const sentences = rows.map((row) => {
    const part = el("div", "sentence");
    if (row.source) {
      const line = el("div", "source");
      line.append(el("span", "caption src", words.source), ...row.source.tokens.map((_, index) => pad(chip(row.source, index, "span"), row.source.special[index] && row.source.tokens[index] === padding)));
      part.append(line);
    }
    const scroller = el("div", "scroller");
    const table = el("table");
    table.setAttribute("aria-label", words.label);
    const line = (title, cell) => {
      const made = el("tr");
      made.append(el("th", "caption", title), ...row.input.tokens.map((_, index) => {
        const box = el("td");
        box.append(...cell(index));
        return box;
      }));
      table.append(made);
    };
    line(words.input, (index) => [pad(chip(row.input, index, "span"), row.input.special[index] && row.input.tokens[index] === padding)]);
    line(words.labels, (index) => [pad(chip(row.labels, index, "span"), !row.counts[index])]);
    line(words.loss, (index) => {
      if (!row.counts[index]) return [el("span", "ignored", words.ignored)];
      const bar = el("span", "bar");
      bar.style.width = `${100 * row.losses[index] / top}%`;
      return [el("span", "number", row.losses[index].toFixed(2)), bar];
    });
    scroller.append(table);
    part.append(withEdges(scroller));
    return part;
  });
  rebuild(root, ...sentences);
  return redraws(root, () => followTheme(root));

  /** Padding is hatched, as ignored cells are. */
  function pad(node, isPadding) {
    node.classList.toggle("blocked", isPadding);
    return node;
  }
}
