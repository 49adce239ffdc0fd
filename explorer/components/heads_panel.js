// One opened or pinned head: its heatmap, its lines and what they say in words.

/** { node, index, exact, draw(), light(lit), reveal(query), mark() } */
function headPanel(view, index) {
  const { head } = view;
  const { queries, keys, words, measure } = head;
  const nKey = keys.tokens.length;
  const cells = view.cellsOf(index);
  const sums = queries.tokens.map((_, query) => {
    let sum = 0;
    for (let key = 0; key < nKey; key += 1) if (!cells.blocked[query * nKey + key]) sum += cells.weights[query * nKey + key];
    return sum;
  });
  const most = cells.weights.reduce((max, weight, cell) => (cells.blocked[cell] ? max : Math.max(max, weight)), 0) || 1;
  const panel = { index, label: head.labels[index], cells, sums, most, summaryId: `summary-${index}` };
  const keep = el("button", "keep", "PNG");
  keep.type = "button";
  keep.setAttribute("aria-label", `${words.keep} ${panel.label}`);
  keep.title = words.keep;
  keep.dataset.at = "keep" + index;
  const measured = measure?.texts[index] ?? null;

  const node = el("section", "panel");
  node.setAttribute("aria-label", panel.label);
  node.setAttribute("aria-busy", String(!cells.exact));
  const title = el("div", "title");
  const close = el("button", "close");
  close.type = "button";
  close.setAttribute("aria-label", `${words.close} ${panel.label}`);
  close.dataset.at = "close" + index;
  close.addEventListener("click", () => view.close(index));
  const pin = pinButton(view, index);
  pin.dataset.at = "pin" + index;
  const told = measured === null ? "" : `${measure.name} ${measured}`;
  title.append(el("b", "", panel.label), el("span", "caption", told), keep, pin, close);
  panel.readout = el("div", "readout");
  const summary = el("p", "unseen", cells.summary);
  summary.id = panel.summaryId;

  const map = headMap(view, panel);
  const lines = headLines(view, panel);
  const [chart, text] = [el("div", "chart"), el("div", "text")];
  chart.append(title, map.node, map.legend, summary);
  text.append(lines.node, panel.readout);
  node.append(chart, text);

  keep.addEventListener("click", () => keepPicture(
    map.canvas, draw, `${panel.label}${told ? ` · ${told}` : ""}`, view.theme, panel.label));

  function draw() {
    map.draw(chart.clientWidth);
    lines.draw();
    light(view.lit);
  }

  function light(lit) {
    map.light(lit);
    lines.light(lit);
    say(lit);
  }

  /** What is lit in words: a cell, a row's strongest keys, or a key's strongest queries. */
  function say({ query, key }) {
    if (query === null && key === null) { panel.readout.textContent = words.lines_hint; return; }
    const cell = (q, k) => q * nKey + k;
    const value = (q, k) => (cells.blocked[cell(q, k)]
      ? reason(cells.blocked[cell(q, k)]) : percent(cells.weights[cell(q, k)]));
    if (query !== null && key !== null) {
      panel.readout.replaceChildren(
        `${words.query} `, el("b", "", queries.tokens[query]), ` → ${words.key} `,
        el("b", "", keys.tokens[key]), " · ", el("b", "number", value(query, key)));
      return;
    }
    const [own, other, at] = query !== null ? [queries, keys, query] : [keys, queries, key];
    const pair = (index) => (query !== null ? [query, index] : [index, key]);
    const strongest = other.tokens.map((_, index) => index)
      .filter((index) => !cells.blocked[cell(...pair(index))])
      .sort((a, b) => cells.weights[cell(...pair(b))] - cells.weights[cell(...pair(a))]).slice(0, 4);
    const parts = strongest.flatMap((index, place) => [
      place ? ", " : "", el("b", "", other.tokens[index]), " ", el("span", "number", value(...pair(index)))]);
    panel.readout.replaceChildren(
      `${words[query !== null ? "query" : "key"]} `, el("b", "", own.tokens[at]), query !== null ? " → " : " ← ",
      ...(parts.length ? parts : [reason(cells.blocked[cell(...pair(0))])]));
  }

  /** A blocked cell's byte in words: 1 has no reason of its own. */
  const reason = (code) => (code < 2 ? words.blocked : `${words.blocked}: ${cells.reasons[code - 2]}`);

  const mark = () => pin.setAttribute("aria-pressed", String(view.chosen.pinned.includes(index)));
  return { node, index, exact: cells.exact, draw, light, mark, reveal: lines.reveal };
}
