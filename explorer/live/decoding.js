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
  const least = values.slice().sort().at(-count) ?? -Infinity;
  const found = [];
  values.forEach((value, token) => { if (value >= least) found.push(token); });
  return found.sort((one, other) => values[other] - values[one] || one - other).slice(0, count);
}

/**
 * The steps of an output: the query whose logits are read, the log-probabilities, the token chosen
 * by `choose`, and what that pass recorded if it read the whole text, which it does without `cache`.
 */
export function* decode(model, tgt, { masks = {}, most, memory = null, cache = null, choose = greedy }) {
  const { config, last } = model;
  const fills = config.predicts === "same";
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
