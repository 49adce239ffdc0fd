/** Queries above, keys below, a line for each weight; a click or Enter picks a query. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { queries, keys, words } = head;
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];
  const code = (query, key) => arrays.cells[query * nKey + key];
  const weight = (query, key) => (code(query, key) === BLOCKED ? 0 : weightOf(code(query, key)));
  const HEIGHT = 150;

  const scroller = el("div", "scroller");
  const stage = el("div", "stage");
  const canvas = el("canvas");
  canvas.setAttribute("aria-hidden", "true"); // the readout says the same in words
  const readout = el("div", "readout", words.hint);
  readout.setAttribute("aria-live", "polite");

  let theme, colours;
  let selected = head.selected;
  let pointed = null; // { row: "query" | "key", index }; wins over `selected` while it lasts

  function rowOf(row, name) {
    const line = el("div", "row");
    line.setAttribute("role", "group");
    line.setAttribute("aria-label", row.title);
    const chips = row.tokens.map((token, index) => {
      const node = chip(row, index);
      node.dataset.at = name + index;
      const show = () => { pointed = { row: name, index }; paint(); };
      const hide = () => { pointed = null; paint(); };
      node.addEventListener("pointerenter", show);
      node.addEventListener("pointerleave", hide);
      node.addEventListener("focus", () => { if (node.matches(":focus-visible")) show(); });
      node.addEventListener("blur", hide);
      if (name === "query") node.addEventListener("click", () => { selected = index; paint(); setTriggerValue("picked", index); });
      line.append(node);
      return node;
    });
    return { line, chips };
  }
  const above = rowOf(queries, "query");
  const below = rowOf(keys, "key");

  function draw() {
    theme = followTheme(root);
    colours = chipColours(theme);
    paint();
  }

  /** The active token's own lines, or all of them while none is active. */
  function paint() {
    const active = pointed ?? (selected === null ? null : { row: "query", index: selected });
    const context = fit(canvas, stage.scrollWidth, HEIGHT);
    const middle = ({ offsetLeft, offsetWidth }) => offsetLeft + offsetWidth / 2;
    const [from, to] = [above.chips.map(middle), below.chips.map(middle)];
    const links = [];
    for (let query = 0; query < nQuery; query += 1) {
      if (active?.row === "query" && active.index !== query) continue;
      for (let key = 0; key < nKey; key += 1) {
        if (active?.row === "key" && active.index !== key) continue;
        if (weight(query, key) >= head.least) links.push([weight(query, key), from[query], to[key]]);
      }
    }
    drawLinks(context, links, HEIGHT, rgb(theme.get("accent")), active);
    tint(below.chips, active?.row === "query" ? (key) => code(active.index, key) : null, colours);
    tint(above.chips, active?.row === "key" ? (query) => code(query, active.index) : null, colours);
    above.chips.forEach((node, index) => {
      node.classList.toggle("selected", index === selected);
      node.setAttribute("aria-pressed", String(index === selected));
    });
    say(active);
  }

  function say(active) {
    if (!active) { readout.textContent = words.hint; return; }
    const [own, other] = active.row === "query" ? [queries, keys] : [keys, queries];
    const pair = (index) => (active.row === "query" ? [active.index, index] : [index, active.index]);
    const most = other.tokens.map((_, index) => index)
      .filter((index) => code(...pair(index)) !== BLOCKED)
      .sort((a, b) => weight(...pair(b)) - weight(...pair(a))).slice(0, 4);
    const parts = most.flatMap((index, place) => [
      place ? ", " : "", el("b", "", other.tokens[index]), " ", el("span", "number", percent(weight(...pair(index))))]);
    readout.replaceChildren(
      `${words[active.row]} `, el("b", "", own.tokens[active.index]),
      active.row === "query" ? " → " : " ← ", ...(parts.length ? parts : [words.blocked]));
  }

  const title = (row, className) => el("div", `caption ${className} ${row.stream ?? ""}`, row.title);
  stage.append(above.line, canvas, below.line);
  scroller.append(stage);
  rebuild(root, title(queries, "first"), scroller, title(keys, "last"), readout);
  const sideways = (key, index) => ({ ArrowLeft: index - 1, ArrowRight: index + 1 }[key]);
  // The old place in a long row, or else the kept query in the middle.
  const kept = above.chips[selected];
  scroller.scrollLeft = root.scrolled ?? (kept ? kept.offsetLeft - root.clientWidth / 2 : 0);
  roving(above.chips, selected ?? 0, sideways);
  roving(below.chips, 0, sideways);
  scroller.addEventListener("scroll", () => { root.scrolled = scroller.scrollLeft; });
  return redraws(root, draw);
}
