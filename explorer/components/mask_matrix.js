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

  let theme, wide, tall, left, above, overhang, slanted, fills;
  let cursor = null;
  let selected = head.selected;

  function draw(width) {
    theme = followTheme(root);
    measure(width);
    const context = fit(canvas, left + nKey * wide + 2 + overhang, above + nQuery * tall + 2);
    fills = head.rules.map((_, rule) => (
      hatching(context, theme.get("rules-" + rule), theme.get("rule-marks-" + rule), rule)));
    drawCells(context);
    drawLabels(context);
    outline(context, selected, theme.get("accent"), 2.5);
    outline(context, cursor, theme.get("ink"), 1.5);
    drawLegend();
  }

  /** Cells wide enough for horizontal labels if there is room, else slanted labels. */
  function measure(width) {
    scratch.font = `13px ${theme.font}`;
    const widest = (row) => Math.max(...row.tokens.map((token) => scratch.measureText(token).width), 20);
    left = Math.min(Math.min(130, width / 4), widest(queries) + 10) + 22;
    const least = nKey > 40 ? 9 : 18; // room for a slanted label; the matrix scrolls if need be
    const longest = Math.min(110, widest(keys));
    const room = (width - left - 10) / nKey;
    tall = Math.max(least, Math.min(32, 640 / nQuery, room * 1.5));
    wide = Math.floor(Math.max(least, Math.min(room, Math.max(tall, Math.min(84, longest + 10)))));
    slanted = longest + 4 > wide;
    overhang = slanted ? Math.max(0, 0.72 * longest - 0.4 * wide) : 0; // of the last slanted label
    if (slanted) wide = Math.floor(Math.max(least, Math.min(wide, room - overhang / nKey)));
    tall = Math.floor(Math.min(tall, wide));
    above = (slanted ? longest * 0.75 + 14 : 22) + 20;
  }

  function drawCells(context) {
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

  function drawLabels(context) {
    context.font = `13px ${theme.font}`;
    context.textBaseline = "middle";
    const ink = (row, index, lit) => (
      lit ? theme.get("accent") : row.special[index] ? theme.get("muted") : theme.get("ink"));
    context.textAlign = "right";
    // Labels thin out once the cells are smaller than the text.
    for (let index = 0; index < nQuery; index += Math.ceil(14 / tall)) {
      context.fillStyle = ink(queries, index, cursor?.[0] === index);
      context.fillText(queries.tokens[index], left - 8, above + (index + 0.5) * tall, left - 30);
    }
    for (let index = 0; index < nKey; index += Math.ceil(14 / wide)) {
      context.fillStyle = ink(keys, index, cursor?.[1] === index);
      context.save();
      context.translate(left + (index + (slanted ? 0.6 : 0.5)) * wide, above - 10);
      if (slanted) context.rotate(-Math.PI / 4);
      context.textAlign = slanted ? "left" : "center";
      context.fillText(keys.tokens[index], 0, 0, 110);
      context.restore();
    }
    context.fillStyle = theme.stream(keys.stream);
    context.textAlign = "left";
    context.fillText(`${keys.title} →`, left, 9);
    context.fillStyle = theme.stream(queries.stream);
    context.save();
    context.translate(9, above);
    context.rotate(-Math.PI / 2);
    context.textAlign = "right";
    context.fillText(`← ${queries.title}`, 0, 0);
    context.restore();
  }

  function outline(context, at, colour, width) {
    if (!at) return;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(left + at[1] * wide - 0.5, above + at[0] * tall - 0.5, wide, tall);
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

  function under(event) {
    const key = Math.floor((event.offsetX - left) / wide);
    const query = Math.floor((event.offsetY - above) / tall);
    return key >= 0 && key < nKey && query >= 0 && query < nQuery ? [query, key] : null;
  }

  function pick(at) {
    if (!at) return;
    selected = at;
    draw(root.clientWidth);
    setTriggerValue("picked", at);
  }

  canvas.addEventListener("pointermove", (event) => move(under(event)));
  canvas.addEventListener("pointerleave", () => move(null));
  canvas.addEventListener("click", (event) => pick(under(event)));
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "Enter" || event.key === " ") pick(cursor);
    else if (!steps[event.key]) return;
    else {
      const [query, key] = cursor ?? selected ?? [0, 0];
      const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
      const by = cursor ? steps[event.key] : [0, 0]; // the first press only shows where one stands
      move([clamp(query + by[0], nQuery), clamp(key + by[1], nKey)]);
    }
    event.preventDefault();
  });

  // A new payload keeps the keyboard's place, as long as that place still exists.
  if (root.cursor && root.cursor[0] < nQuery && root.cursor[1] < nKey) cursor = root.cursor;
  rebuild(root, scroller, legend, readout);
  say();
  return redraws(root, draw);
}
