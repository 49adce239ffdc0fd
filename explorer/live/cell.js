// One cell of a head: from the vectors of its query and key to its weight. explorer/analysis/score/steps.py.

import { el, fill, fixed, percent, signed } from "./words.js";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

/** The calculation of a cell of `site`, as the engine recorded it. `head`, `query` and `key` count from 0. */
function cellOf(config, { seen, role }, head, query, key) {
  const { q, k, scores, pattern, open, nKeys, n } = seen;
  const { d_head: d, n_heads: heads, n_kv_heads: groups, divisor, score_cap: cap } = config;
  const [from, to] = [(query * heads + head) * d, (key * groups + Math.floor(head * groups / heads)) * d];
  const products = Array.from({ length: d }, (_, at) => q[from + at] * k[to + at]);
  const row = (values) => Array.from(values.subarray((head * n + query) * nKeys, (head * n + query + 1) * nKeys));
  const allowed = Array.from(open.subarray(query * nKeys, (query + 1) * nKeys));
  const rowScores = row(scores);
  const dot = products.reduce((sum, each) => sum + each, 0);
  const visible = rowScores.filter((_, at) => allowed[at]);
  const largest = visible.length ? Math.max(...visible) : 0;
  return {
    products, dot, allowed, visible, largest, scores: rowScores, weights: row(pattern), score: rowScores[key],
    isAllowed: allowed[key] === 1, cap,
    bias: role !== "cross" && config.acts === "biases" ? rowScores[key] - dot / divisor : null,
    rowSum: visible.reduce((sum, each) => sum + Math.exp(each - largest), 0),
  };
}

/** How a score is computed from q · k, as text: scaled, capped and biased as in this model. */
function sumOf(cell, divisor) {
  const scaled = `${fixed(cell.dot)} ÷ ${divisor}`;
  const capped = cell.cap === null ? scaled : `${fixed(cell.cap)} · tanh(${scaled} ÷ ${fixed(cell.cap)})`;
  const bias = cell.bias === null ? "" : signed(cell.bias);
  return bias ? `${capped} ${bias[0]} ${bias.slice(1)}` : capped;
}

/** The three steps of a cell in words, and the bars below each: [title, sentence, values, the marked one]. */
function stepsOf(cell, { key, query, queries, keys, words, divisor }) {
  const named = (tokens, at) => fill(words.quoted, { token: tokens[at] })
    + (tokens.filter((token) => token === tokens[at]).length > 1 ? [...String(at)].map((digit) => SUBSCRIPTS[digit]).join("") : "");
  const most = cell.products.reduce((best, value, at) => (Math.abs(value) > Math.abs(cell.products[best]) ? at : best), 0);
  const values = {
    query: named(queries, query), key: named(keys, key), dot: fixed(cell.dot), dim: most, most: fixed(cell.products[most]), divisor,
    score: fixed(cell.score), rank: cell.visible.filter((score) => score > cell.score).length + 1, count: cell.visible.length,
    blocked: keys.length - cell.visible.length, sum: sumOf(cell, divisor),
    largest: fixed(cell.largest), exponential: fixed(Math.exp(cell.score - cell.largest), 3), row_sum: fixed(cell.rowSum), weight: percent(cell.weights[key]),
  };
  return [
    [words.similarity, fill(words.reading_similarity, values), cell.products, most],
    [words.scale, fill(words[cell.isAllowed ? "reading_scale" : "reading_blocked"], values), cell.scores, key],
    ...(cell.isAllowed ? [[words.softmax, fill(words.reading_softmax, values), cell.weights, key]] : []),
  ];
}

/** Signed values as bars; the sentence below them gives the numbers. */
function barsOf(values, marked) {
  const bars = el("div", "bars", "", { "aria-hidden": "true" });
  const [top, bottom] = [Math.max(0, ...values), Math.min(0, ...values)];
  const share = (value) => `${100 * value / (top - bottom || 1)}%`;
  bars.append(...values.map((value, at) => {
    const bar = el("span", at === marked ? "marked" : "");
    bar.style.setProperty("--tall", share(Math.abs(value)));
    bar.style.setProperty("--low", share(Math.min(0, value) - bottom));
    return bar;
  }));
  return bars;
}

/**
 * The nodes that show the cell at [layer, head, query, key] of `site`, or null if there is none;
 * `open` is called with another cell, or null.
 */
export function cellView(config, site, at, { queries, keys, streams, words, divisor, open }) {
  const [layer, head, query, key] = at;
  if (query >= queries.length || key >= keys.length) return null;
  const cell = cellOf(config, site, head, query, key);
  const button = (name, className, text, to) => {
    const node = el("button", className, text, { type: "button" });
    node.dataset.at = name;
    node.addEventListener("click", () => open(to));
    return node;
  };
  const chips = (name, tokens, stream, chosen, to) => {
    const row = el("div", "chips", "", { role: "group", "aria-label": words[name] });
    row.append(el("span", "caption", words[name]), ...tokens.map((token, place) => {
      const state = (place === chosen ? " selected" : "") + (name === "key" && !cell.allowed[place] ? " blocked" : "");
      const chip = button(name + place, `chip ${stream}${state}`, token, to(place));
      chip.setAttribute("aria-pressed", String(place === chosen));
      return chip;
    }));
    return row;
  };
  const steps = el("ol", "steps");
  steps.append(...stepsOf(cell, { query, key, queries, keys, words, divisor }).map(([title, sentence, values, marked]) => {
    const item = el("li");
    item.append(el("h3", "", title), barsOf(values, marked), el("p", "", sentence));
    return item;
  }));
  const title = el("h2", "", `${words.title} · L${layer + 1}·H${head + 1}`);
  const shut = button("close", "", "×", null);
  shut.setAttribute("aria-label", words.close);
  title.append(shut);
  return [title, chips("query", queries, streams[0], query, (place) => [layer, head, place, key]),
    chips("key", keys, streams[1], key, (place) => [layer, head, query, place]), steps];
}
