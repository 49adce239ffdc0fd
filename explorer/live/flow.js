// One text on its way through the model, for the pictures: explorer/analysis/start/flow.py.

import { decode, greedy, largest } from "./decoding.js";
import { placesOf } from "./drawing.js";
import { labelsOf } from "./labels.js";
import { tellingPairs } from "./positions.js";

export const MOST = 64; // tokens of a sequence: more would be drawn too small to see
const MOST_NEW = { next: 24 };
const [SHOWN_VALUES, CANDIDATES] = [24, 6];

/** A text that cannot be read: the key of the words that say why, and their values. */
export class Unreadable extends Error {
  constructor(key, values = {}) { super(key); Object.assign(this, { key, values }); }
}

/** Characters of a text that are not read: as explorer/runs/sentences.py. White space stays. */
const DROPPED = /(?![\t-\r\x85])[\p{Cc}\p{Cs}\ufeff\u202a-\u202e\u2066-\u2069]/gu;

/** How a text is read other than as typed: without the characters that are dropped, and whether the tokenizer ignores line ends and additional blanks. */
export function readingOf(tokenizer, text) {
  const [cleaned, single] = [text.replaceAll(DROPPED, ""), text.replaceAll(DROPPED, "").trim().replace(/\s+/g, " ")];
  const folds = single !== cleaned && `${tokenizer.encode(single)}` === `${tokenizer.encode(cleaned)}`;
  return { cleaned, dropped: [...new Set(text.match(DROPPED))], folds };
}

/** The ids of a text with the model's special tokens, in the first sequence that it reads; of a picture, its patches. */
export function givenTokens(model, tokenizer, text) {
  if (Array.isArray(text)) return text;
  const cleaned = text.replaceAll(DROPPED, "");
  if (!cleaned.trim()) throw new Unreadable("empty");
  const [before, after] = model.config.framed[model.stacks[0].stream];
  const tokens = [...before, ...tokenizer.encode(cleaned), ...after];
  const most = Math.min(MOST, model.config.n_ctx);
  if (tokens.length > most) throw new Unreadable("too_many_tokens", { limit: most, length: tokens.length });
  if (tokens.length === before.length + after.length) throw new Unreadable("nothing_left");
  if (model.config.predicts === "same" && !tokens.includes(model.config.marks.mask)) throw new Unreadable("nothing_to_fill");
  return tokens;
}

/**
 * The output for a text and everything that the pictures show. `changes`: `causal` and `window` as
 * in the engine, `pads` padding tokens, `padsHidden` whether they are masked, `hidden` the given
 * tokens to block as keys; `choose` picks each token.
 */
export function flowOf(model, tokenizer, text, { causal = true, window = null, pads = 0, padsHidden = true, hidden = [], choose = greedy } = {}) {
  const { config, stacks, last } = model;
  const given = givenTokens(model, tokenizer, text);
  const translates = stacks.length > 1;
  const first = stacks[0].stream;
  // Padding is on the right of a source, and on the left of what is continued, as in a batch.
  const left = config.predicts === "next" && !translates ? pads : 0;
  const padding = Array.from({ length: pads }, () => config.marks.pad);
  const read = left ? [...padding, ...given] : [...given, ...padding];
  const valid = Uint8Array.from(read, (_, at) => (left ? at >= left : at < given.length));
  const blocked = {};
  hidden.forEach((at) => { blocked[at + left] = true; });
  const masks = { causal, window, pads: padsHidden, valid: { [first]: valid }, hidden: { [first]: blocked } };
  const src = translates ? read : null;
  const begun = translates ? config.framed.tgt[0] : read;
  const room = Math.max(1, Math.min(MOST + 1, config.n_ctx) - begun.length); // the last token is not read
  const most = Math.min(room, translates ? 2 * given.length + 20 : MOST_NEW[config.predicts] ?? MOST);
  const record = {};
  const memory = src ? model.run(stacks[0], src, { masks, record }) : null;
  const cache = last.causal && causal ? { length: 0 } : null; // otherwise later tokens reach earlier ones
  const steps = [...decode(model, begun, { masks, most, memory, cache, choose })];
  const written = steps.map(({ chosen }) => chosen);

  const fills = config.predicts === "same";
  const tgt = fills ? [...begun] : [...begun, ...written.slice(0, -1)];
  if (fills) steps.slice(0, -1).forEach(({ query, chosen }) => { tgt[query] = chosen; });
  if (cache) Object.assign(record, model.recall(last, cache, { masks }));
  else model.run(last, tgt, { masks, memory, record });

  const sequences = { src, tgt };
  const lanes = stacks.map((stack) => {
    const tokens = sequences[stack.stream];
    const { embedded, added } = record[stack.role];
    return {
      stream: stack.stream,
      tokens: Array.isArray(tokens[0]) ? placesOf(config.picture) : labelsOf(tokenizer, tokens),
      special: tokens.map((token) => tokenizer.isSpecial(token)),
      given: stack === last ? begun.length : tokens.length,
      embedded: columns(embedded, config.d_model, Array.from({ length: Math.min(SHOWN_VALUES, config.d_model) }, (_, at) => at)),
      turns: config.acts === "turns",
      waves: wavesOf(model, stack, added, tokens.length),
      blocks: Array.from({ length: stack.layers }, (_, layer) => sitesOf(stack, layer).map((site) => (
        Object.assign(site, { heads: config.n_heads, seen: record[site.path] }, stack === last && rowsOf(site, steps, record[site.path], config.n_heads))))),
    };
  });
  const before = translates ? [] : given;
  const moments = steps.map((step, at) => momentOf(tokenizer, fills ? tgt[step.query - 1] ?? begun[0] : tgt[step.query], step,
    fills ? filled(tokenizer, given, steps.slice(0, at + 1), config.marks.mask) : tokenizer.decode([...before, ...written.slice(0, at + 1)])));
  return {
    lanes, moments, tokens: written, left, given: lanes[0].tokens,
    words: written.filter((token) => !config.ends.includes(token)).map((_, at) => moments[at].tokens[moments[at].chosen]),
    isCut: translates && !config.ends.includes(written.at(-1)),
    prompt: translates || fills ? "" : tokenizer.decode(given),
    said: moments.at(-1)?.said ?? text,
  };
}

const sitesOf = (stack, layer) => {
  const path = `${stack.path}blocks.${layer}`;
  const own = { path: `${path}.attn`, role: stack.role, keys: stack.stream };
  return stack.crosses ? [own, { path: `${path}.cross_attn`, role: "cross", keys: "src" }] : [own];
};

/** Some columns of x [row, width]. */
function columns(x, width, chosen) {
  const rows = x.length / width;
  return { width: chosen.length, values: Float32Array.from({ length: rows * chosen.length }, (_, at) => (
    x[Math.floor(at / chosen.length) * width + chosen[at % chosen.length]])) };
}

/** What positions add in dimensions from fast to slow, or the sines of what they rotate by. */
function wavesOf({ config, placedAt }, stack, added, n) {
  const turned = placedAt(stack, "rotation", Array.from({ length: n }, (_, at) => at));
  const count = (turned ? turned[0].length : config.d_model) / 2;
  const pairs = tellingPairs(count, n - 1, config.rope_base);
  if (added) return columns(added, config.d_model, pairs.map((pair) => 2 * pair));
  return turned && { width: pairs.length, values: Float32Array.from(turned.flatMap((row) => pairs.map((pair) => row[count + pair]))) };
}

/** Each step's weights [step, head, key] when it was taken, and which keys there were, [step, key]. */
function rowsOf(site, steps, seen, heads) {
  const { nKeys } = seen;
  const [rows, there] = [new Float32Array(steps.length * heads * nKeys), new Uint8Array(steps.length * nKeys)];
  steps.forEach(({ query, record }, step) => {
    const then = record?.[site.path] ?? seen;
    const count = record || site.role === "cross" ? then.nKeys : query + 1;
    for (let key = 0; key < count; key += 1) {
      there[step * nKeys + key] = 1;
      for (let head = 0; head < heads; head += 1) {
        rows[(step * heads + head) * nKeys + key] = then.pattern[(head * then.n + query) * then.nKeys + key];
      }
    }
  });
  return { rows, there };
}

function momentOf(tokenizer, before, { query, logProbs, chosen }, said) {
  const shown = largest(logProbs, CANDIDATES);
  if (!shown.includes(chosen)) shown[shown.length - 1] = chosen;
  return {
    thread: query,
    tokens: shown.map((token) => labelsOf(tokenizer, [before, token])[1]),
    chances: shown.map((token) => Math.exp(logProbs[token])),
    chosen: shown.indexOf(chosen),
    said,
  };
}

/** A text with its masks filled in so far. */
function filled(tokenizer, given, steps, mask) {
  const by = new Map(steps.map(({ query, chosen }) => [query, chosen]));
  const parts = [[]];
  given.forEach((token, at) => {
    if (token === mask && !by.has(at)) parts.push([]);
    else parts.at(-1).push(by.get(at) ?? token);
  });
  return parts.map((part) => tokenizer.decode(part).trim()).join(" ___ ").trim();
}
