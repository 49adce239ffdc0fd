// Generation, token by token: models/decoding.py for one row.

/** Log-probabilities of one row of logits. */
export function logSoftmax(logits) {
  const top = logits.reduce((most, each) => Math.max(most, each), -Infinity);
  const total = Math.log(logits.reduce((sum, each) => sum + Math.exp(each - top), 0)) + top;
  return logits.map((each) => each - total);
}

/** The most probable token. */
export const greedy = (logProbs) => logProbs.reduce((best, each, at) => (each > logProbs[best] ? at : best), 0);

/** A token drawn from the probabilities at a temperature; `random` returns numbers from 0 to 1. */
export function drawing(temperature, random) {
  return (logProbs) => {
    const warm = logSoftmax(logProbs.map((each) => each / temperature));
    let left = random();
    const found = warm.findIndex((each) => { left -= Math.exp(each); return left < 0; });
    return found < 0 ? greedy(logProbs) : found;
  };
}

/** Random numbers from a seed (mulberry32), so that a drawing can be repeated. */
export function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6D2B79F5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The tokens with the largest values, best first; of equal ones, the smaller token first. */
export function largest(values, count) {
  return Array.from(values, (value, token) => [value, token])
    .sort((one, other) => other[0] - one[0] || one[1] - other[1]).slice(0, count).map(([, token]) => token);
}

/**
 * The steps of an output: the query whose logits are read, the log-probabilities, the token chosen
 * by `choose`, and what that pass recorded if it read the whole text. Later tokens reach earlier
 * ones without a causal mask, so nothing can be cached then.
 */
export function* decode(model, { src, tgt }, { masks = {}, most, choose = greedy }) {
  const { config, last } = model;
  const memory = src ? model.run(model.stacks[0], src, { masks }) : null;
  const fills = config.predicts === "same";
  const cache = last.causal && (masks.causal ?? true) ? { length: 0 } : null;
  const tokens = [...tgt];
  const gaps = fills ? tokens.flatMap((token, at) => (token === config.marks.mask ? [at] : [])) : null;
  for (let step = 0; step < (fills ? gaps.length : most); step += 1) {
    const record = cache ? null : {};
    const x = model.run(last, tokens.slice(cache?.length ?? 0), { masks, memory, cache, record });
    const query = fills ? gaps[step] : tokens.length - 1;
    const row = x.length / config.d_model - tokens.length + query;
    const logits = model.logits(x.slice(row * config.d_model, (row + 1) * config.d_model));
    if (config.marks.pad !== null && config.marks.pad === config.marks.start) logits[config.marks.pad] = -Infinity;
    const logProbs = logSoftmax(logits);
    const chosen = choose(logProbs);
    yield { query, logProbs, chosen, record };
    if (!fills && config.ends.includes(chosen)) return;
    if (fills) tokens[query] = chosen;
    else tokens.push(chosen);
  }
}
