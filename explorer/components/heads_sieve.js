// Which of many heads are in the grid, and how large: a search box, a size, and layers that fold.

import { el } from "./dom.js";

/** From here on a grid has these controls, and draws only what is on the screen. */
const MANY = 64;
const [SMALLEST, LARGEST, NAMED] = [24, 148, 56]; // px; below NAMED there is no room for a name
const GROUPS = 8;
const [TALL, READABLE] = [640, 36]; // px: the initial height of a grid, and the side below which it only fits a row

/** Whether a head matches a search like "L12", "12", "12.3", "L12·H3" or "avg". */
function matches(search, label) {
  const wanted = search.trim().toLowerCase();
  const numbers = wanted.match(/^l?(\d+)(?:[.·\sh]+(\d*))?$/);
  if (!numbers) return label.toLowerCase().includes(wanted);
  const [, layer, head] = label.match(/L(\d+)(?:·H(\d+))?/) ?? [];
  return layer === numbers[1] && (!numbers[2] || head === numbers[2]);
}

/** { node, many, shows(index), side(width, shape, sorted) }; `changed()` after every choice. */
export function headSieve(view, changed) {
  const { labels, layers, columns, words } = view.head;
  const many = layers * columns > MANY;
  const span = Math.ceil(layers / GROUPS);
  const groupOf = (index) => Math.floor(Math.min(layers * columns, index) / columns / span);
  const state = { search: "", size: null, folded: new Set(["further"]), ...view.sieve };
  const found = (index) => matches(state.search, labels[index]);
  const shows = (index) => !many || (state.search.trim() ? found(index) : !state.folded.has(folds(index)));
  const folds = (index) => (index < layers * columns ? groupOf(index) : "further");
  view.sieve = state;
  const node = el("div", "sieve");
  if (!many) return { node, many, shows, side: () => null };

  const search = el("input");
  Object.assign(search, { type: "search", placeholder: words.find_hint, value: state.search });
  search.dataset.at = "find";
  search.setAttribute("aria-label", words.find);
  search.addEventListener("input", () => { state.search = search.value; changed(); });

  const size = el("input");
  Object.assign(size, { type: "range", min: SMALLEST, max: LARGEST, step: 4 });
  size.dataset.at = "size";
  size.setAttribute("aria-label", words.size);
  size.addEventListener("input", () => { state.size = Number(size.value); changed(); });
  const sizes = el("label", "size");
  sizes.append(el("span", "caption", words.size), size);

  const fold = (group, name) => {
    const button = el("button", "fold", name);
    button.type = "button";
    button.dataset.at = "fold" + group;
    const mark = () => button.setAttribute("aria-pressed", String(!state.folded.has(group)));
    button.addEventListener("click", () => {
      if (!state.folded.delete(group)) state.folded.add(group);
      mark();
      changed();
    });
    mark();
    return button;
  };
  const groups = el("div", "folds");
  groups.setAttribute("role", "group");
  groups.setAttribute("aria-label", words.layers);
  for (let first = 0, group = 0; first < layers; first += span, group += 1) {
    const last = Math.min(layers, first + span);
    groups.append(fold(group, last - first > 1 ? `L${first + 1}–${last}` : `L${last}`));
  }
  if (labels.length > layers * columns) groups.append(fold("further", words.further));
  node.append(search, sizes, groups);

  /** The side of a picture: the chosen one, else the largest with which a layer fits in one row, if
   * heads are not `sorted`, and the grid is not too tall, if that is readable. */
  function side(width, shape, sorted) {
    const count = labels.filter((_, index) => shows(index)).length;
    let fitting = state.size ?? LARGEST;
    while (state.size === null && fitting > SMALLEST) {
      const [across, tall] = [acrossOf(width, fitting, columns, sorted), fitting * shape + (fitting < NAMED ? 4 : 32)];
      const isLow = fitting <= READABLE || Math.ceil(count / across) * tall <= TALL;
      if (isLow && (sorted || across === columns)) break;
      fitting -= 4;
    }
    size.value = fitting;
    return fitting;
  }
  return { node, many, shows, side };
}

/** Whether pictures of this side are too small for a name; they then have narrow gaps. */
export const isTiny = (side) => side < NAMED;

/** How many pictures of this side are in a row: a layer if it fits, or all that fit if `sorted`. */
export function acrossOf(width, side, columns, sorted) {
  const most = Math.max(1, Math.floor((width + 8) / (side + (isTiny(side) ? 4 : 14))));
  return sorted ? most : Math.min(most, columns);
}

/** The names of rows and columns where each row of the grid is a layer: { layers, numbers }. */
export function headNumbers({ layers, columns }) {
  const names = (letter, count) => Array.from({ length: count }, (_, at) => el("span", "number", `${letter}${at + 1}`));
  const numbers = names("H", columns);
  numbers.forEach((number, at) => { number.style.gridColumnStart = 2 + at; });
  return { layers: names("L", layers), numbers };
}
