import { el, rebuild, redraws } from "./dom.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";
import { wiresOf } from "./wires.js";

/** Columns of boxes; a click on a linked box sends its index to Python. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { columns, hrefs } = unpack(data).head;
  followTheme(root);
  const drawn = []; // each box with its node, by index

  function part(box) {
    const index = drawn.length, href = hrefs[index];
    const node = el(href ? "a" : "div", "part");
    node.append(el("b", "", box.name), el("span", "note", box.note));
    if (box.shape) node.append(el("code", "", box.shape));
    drawn.push({ ...box, node });
    if (!href) return node;
    node.href = href;
    node.dataset.at = index;
    node.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab or window
      event.preventDefault();
      setTriggerValue("picked", index);
    });
    return node;
  }

  function group([title, boxes]) {
    const node = el("section");
    if (title) node.append(el("small", "", title));
    node.append(...boxes.map(part));
    return node;
  }

  const machine = el("div", columns.length === 1 ? "machine one" : "machine");
  machine.append(...columns.map(({ title, stream, groups }) => {
    const node = el("div", stream);
    node.append(el("h4", "", title), ...groups.map(group));
    return node;
  }));
  const wires = el("div", "wires");
  machine.append(wires);
  rebuild(root, machine);
  return redraws(root, () => wires.replaceChildren(...wiresOf(machine, drawn)));
}
