import { el, rebuild } from "./dom.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

/** Columns of boxes; a click on one that leads somewhere is handed to Python by its number. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { columns } = unpack(data).head;
  followTheme(root);
  let count = 0;

  function part({ name, shape, note, href }) {
    const index = count++;
    const node = el(href ? "a" : "div", "part");
    node.append(el("b", "", name), el("span", "note", note), el("code", "", shape));
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
  rebuild(root, machine);
  return undefined;
}
