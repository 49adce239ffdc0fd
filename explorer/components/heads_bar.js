// Above the heads: the kinds of attention, the head of each role, the order, and the colours.

import { choice, el } from "./dom.js";

/**
 * { node, mark(), show(chosen) }: `change` makes a choice of the view, `ask` is answered by Python
 * with another picture, `redraw` draws this one again.
 */
export function headsBar(view, change, ask, redraw) {
  const { alone, bar, measure, words } = view.head;
  const { kinds = [], kind, names, roles = [], matter } = bar ?? {}; // a page without the app has none
  const node = el("div", "above");
  const [first, second] = [el("div", "bar-row"), el("div", "bar-row")];
  const button = (at, label, press) => {
    const made = el("button", "role", label);
    made.type = "button";
    made.dataset.at = at;
    made.addEventListener("click", press);
    return made;
  };

  if (kinds.length > 1 && !alone) {
    const tabs = choice("kind", words.kind, kinds.map((name) => [name, names[name]]), kind, ask);
    tabs.classList.add("tabs");
    first.append(tabs);
  }
  const finds = roles.map(([label, index]) => button("role" + index, label, () => view.find(index)));
  if (finds.length) {
    const group = el("div", "choice");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", words.find);
    group.append(...finds);
    second.append(group);
  }
  if (matter && !alone) second.append(button("matter", matter, () => ask("needed")));
  if (measure) {
    second.append(choice("by_measure", words.order, [[false, words.layers], [true, measure.name]],
      view.chosen.by_measure, (by_measure) => change({ by_measure })));
  }
  if (view.picture) first.append(...view.picture.choices(redraw));

  const menu = el("details", "colours");
  const sheet = el("div", "sheet");
  sheet.tabIndex = -1; // so that a press between its buttons leaves it open
  sheet.append(
    choice("scale", words.scale, ["linear", "log", "rank"].map((name) => [name, words[name]]), view.chosen.scale, (scale) => change({ scale })),
    choice("shared", words.range, [[true, words.shared], [false, words.own]], view.chosen.shared, (shared) => change({ shared })));
  const summary = el("summary", "", words.colours);
  summary.dataset.at = "colours";
  menu.append(summary, sheet);
  menu.addEventListener("focusout", ({ relatedTarget }) => { if (!menu.contains(relatedTarget)) menu.open = false; });
  second.append(menu);
  node.append(...(first.childNodes.length ? [first] : []), second);

  /** Marks the roles of the open head. */
  function mark() {
    roles.forEach(([, index], at) => finds[at].setAttribute("aria-pressed", String(index === view.chosen.opened)));
  }

  /** Shows choices that were made elsewhere. */
  function show(chosen) {
    for (const input of node.querySelectorAll("input")) if (input.name in chosen) input.checked = input.value === String(chosen[input.name]);
  }
  return { node, mark, show };
}
