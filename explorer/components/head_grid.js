/** All heads as thumbnails; a click or Enter picks one. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { queries, keys, labels, words, step } = head;
  root.send = (place) => setTriggerValue("picked", place);
  // A click mostly changes nothing but the outline: then all those thumbnails may stay.
  followTheme(root);
  const likeness = JSON.stringify([{ ...head, selected: null }, root.hasAttribute("data-dark")]);
  const same = root.likeness === likeness && arrays.cells.every((code, cell) => code === root.cells[cell]);
  if (same) { root.mark(head.selected); return root.stop; }
  Object.assign(root, { likeness, cells: arrays.cells, mark });
  const rows = Math.ceil(queries.tokens.length / step);
  const columns = Math.ceil(keys.tokens.length / step);
  const cellsOf = (index) => arrays.cells.subarray(index * rows * columns, (index + 1) * rows * columns);

  const grid = el("div", "grid");
  grid.setAttribute("role", "radiogroup");
  grid.setAttribute("aria-label", words.label);
  const readout = el("div", "readout", words.hint);
  const heads = labels.map((label, index) => {
    const button = el("button", "head");
    button.type = "button";
    button.dataset.at = index;
    button.setAttribute("role", "radio");
    button.setAttribute("aria-label", label);
    const canvas = el("canvas");
    button.append(canvas, el("span", "name", label));
    button.addEventListener("click", () => {
      mark(index); // at once; Python's answer draws the same outline again
      root.send([Math.floor(index / head.columns), index % head.columns]);
    });
    canvas.addEventListener("pointermove", (event) => point(index, event));
    canvas.addEventListener("pointerleave", () => { paint(index); say(null); });
    grid.append(button);
    return { button, canvas };
  });

  function mark(selected) {
    heads.forEach(({ button }, index) => {
      button.classList.toggle("selected", index === selected);
      button.setAttribute("aria-checked", String(index === selected));
    });
  }

  let theme, colours, ground, side, tall, across;
  function draw(width) {
    theme = followTheme(root);
    colours = pixelsOf(ramp(theme, head.top));
    ground = hatching(scratch, theme.get("blocked"), theme.get("hatch"));
    // A layer is a row while its heads keep a readable width, else the row is halved.
    across = head.columns;
    while (width / across < 76 && across > 1) across = Math.ceil(across / 2);
    side = Math.max(40, Math.min(168, Math.floor((width - 10 * (across - 1)) / across) - 6));
    tall = Math.round(side * Math.min(1.25, Math.max(0.6, rows / columns)));
    grid.style.gridTemplateColumns = `repeat(${across}, ${side + 6}px)`;
    heads.forEach((_, index) => paint(index));
  }

  function paint(index, at = null) {
    const context = fit(heads[index].canvas, side, tall);
    paintCells(context, cellsOf(index), [rows, columns], [0, 0, side, tall], colours, ground);
    if (!at) return;
    context.strokeStyle = theme.get("accent");
    context.lineWidth = 1;
    context.strokeRect(0.5, at.row * tall / rows, side - 1, tall / rows);
    context.lineWidth = 2;
    context.strokeRect(at.column * side / columns, at.row * tall / rows, side / columns, tall / rows);
  }

  function point(index, event) {
    const column = Math.min(columns - 1, Math.max(0, Math.floor(event.offsetX / side * columns)));
    const row = Math.min(rows - 1, Math.max(0, Math.floor(event.offsetY / tall * rows)));
    paint(index, { row, column });
    say(index, row, column, cellsOf(index)[row * columns + column]);
  }

  /** A cell's tokens; a pooled cell spans several, so it names the first and the last. */
  function spanned(tokens, at) {
    const last = Math.min((at + 1) * step, tokens.length) - 1;
    return at * step === last ? tokens[last] : `${tokens[at * step]} … ${tokens[last]}`;
  }

  function say(index, row, column, code) {
    if (index === null) { readout.textContent = words.hint; return; }
    readout.replaceChildren(
      el("b", "", labels[index]), ` · ${words.query} `, el("b", "", spanned(queries.tokens, row)),
      ` → ${words.key} `, el("b", "", spanned(keys.tokens, column)), " · ",
      el("b", "number", code === BLOCKED ? words.blocked : percent(weightOf(code))),
    );
  }

  rebuild(root, grid, readout);
  mark(head.selected);
  roving(heads.map(({ button }) => button), head.selected ?? 0, (key, index) => (
    { ArrowLeft: index - 1, ArrowRight: index + 1, ArrowUp: index - across, ArrowDown: index + across }[key]));
  return redraws(root, draw);
}
