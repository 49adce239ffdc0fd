/** One mask: open cells are paper, each rule has its own hatching; a click or Enter picks a cell. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { queries, keys, words } = head;
  const cells = arrays.cells;
  const [nQuery, nKey] = [queries.tokens.length, keys.tokens.length];

  const scroller = el("div", "scroller");
  const canvas = el("canvas");
  canvas.dataset.at = "matrix";
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application"); // arrow keys belong to the matrix
  canvas.setAttribute("aria-label", `${words.label}. ${words.hint}`);
  scroller.append(canvas);
  const readout = el("div", "readout", words.hint);
  readout.setAttribute("aria-live", "polite");
  const legend = el("div", "legend");

  let theme, box, fills;
  let cursor = null;
  let selected = head.selected;

  function draw(width) {
    theme = followTheme(root);
    box = axisBox(width, queries, keys, theme, { least: nKey > 40 ? 9 : 18 });
    const context = fit(canvas, box.width, box.height);
    fills = head.rules.map((_, rule) => (
      hatching(context, theme.get("rules-" + rule), theme.get("rule-marks-" + rule), rule)));
    drawCells(context);
    drawAxes(context, box, queries, keys, theme, cursor ?? undefined);
    outlineCell(context, box, selected, theme.get("accent"), 2.5);
    outlineCell(context, box, cursor, theme.get("ink"), 1.5);
    drawLegend();
  }

  function drawCells(context) {
    const { left, above, wide, tall } = box;
    context.fillStyle = theme.get("line"); // shows through the gaps as hairlines
    context.fillRect(left - 1, above - 1, nKey * wide + 1, nQuery * tall + 1);
    for (let query = 0; query < nQuery; query += 1) {
      for (let key = 0; key < nKey; key += 1) {
        const rule = cells[query * nKey + key];
        context.fillStyle = rule ? fills[rule - 1] : theme.get("paper");
        context.fillRect(left + key * wide, above + query * tall, wide - 1, tall - 1);
      }
    }
  }

  function drawLegend() {
    const entry = (text, paint) => {
      const item = el("span", "entry");
      const swatch = el("canvas");
      const context = fit(swatch, 18, 18);
      paint(context);
      context.fillRect(0, 0, 18, 18);
      context.strokeStyle = theme.get("line");
      context.strokeRect(0.5, 0.5, 17, 17);
      item.append(swatch, el("span", "", text));
      return item;
    };
    const open = entry(words.open, (context) => { context.fillStyle = theme.get("paper"); });
    const present = head.rules.map((rule, index) => cells.includes(index + 1) && entry(rule, (context) => {
      context.fillStyle = hatching(context, theme.get("rules-" + index), theme.get("rule-marks-" + index), index);
    }));
    legend.replaceChildren(open, ...present.filter(Boolean));
  }

  function say() {
    if (!cursor) { readout.textContent = words.hint; return; }
    const [query, key] = cursor;
    const rule = cells[query * nKey + key];
    readout.replaceChildren(
      `${words.query} `, el("b", "", queries.tokens[query]), ` → ${words.key} `,
      el("b", "", keys.tokens[key]), " · ",
      el("b", "", rule ? `${words.blocked}: ${head.rules[rule - 1]}` : words.open),
    );
  }

  function move(at) {
    if (String(at) === String(cursor)) return;
    cursor = root.cursor = at;
    draw(root.clientWidth);
    say();
  }

  function pick(at) {
    if (!at) return;
    selected = at;
    draw(root.clientWidth);
    setTriggerValue("picked", at);
  }

  canvas.addEventListener("pointermove", (event) => move(cellUnder(event, box)));
  canvas.addEventListener("pointerleave", () => move(null));
  canvas.addEventListener("click", (event) => pick(cellUnder(event, box)));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") pick(cursor);
    else {
      const to = cellBeside(event.key, cursor ?? selected ?? [0, 0], box);
      if (!to) return;
      move(cursor ? to : selected ?? [0, 0]); // the first press only shows where one stands
    }
    event.preventDefault();
  });

  // A new payload keeps the keyboard's place, as long as that place still exists.
  if (root.cursor && root.cursor[0] < nQuery && root.cursor[1] < nKey) cursor = root.cursor;
  rebuild(root, scroller, legend, readout);
  say();
  return redraws(root, draw);
}
