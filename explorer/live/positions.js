// Positional encodings, as models/positions.py defines them.

/** The position of each token: padding does not count, and has that of the token before it. */
export function positionsOf(valid, total) {
  let count = -1;
  return Array.from({ length: total }, (_, at) => {
    if (valid[at] ?? 1) count += 1;
    return Math.max(count, 0);
  });
}

/** The angle per position of each pair of features: base^(-2i / n). */
const frequencies = (n, base) => Array.from({ length: n / 2 }, (_, pair) => base ** (-2 * pair / n));

export function sinusoidAt(position, width, base) {
  return frequencies(width, base).flatMap((each) => [Math.sin(position * each), Math.cos(position * each)]);
}

/** RoPE's angle of each pair at a position. */
export function anglesOf({ n_turned: n, rope_base: base, near_rope_base: near, divisors }, position, isNear = false) {
  const own = isNear && near !== null;
  return frequencies(n, own ? near : base).map((each, pair) => position * each / ((own ? null : divisors?.[pair]) ?? 1));
}

/** ALiBi's penalty per position of distance, for each head. */
export function slopesOf(heads) {
  const below = 2 ** Math.floor(Math.log2(heads));
  const first = Array.from({ length: below }, (_, at) => 2 ** (-8 * (at + 1) / below));
  const further = Array.from({ length: below }, (_, at) => 2 ** (-4 * (2 * at + 1) / below));
  return [...first, ...further.slice(0, heads - below)];
}

/** T5's bucket of an offset key - query: single distances first, then logarithmic up to 128. */
export function bucketOf(offset, causal) {
  const buckets = causal ? 32 : 16;
  const distance = causal ? Math.max(-offset, 0) : Math.abs(offset);
  const first = !causal && offset > 0 ? buckets : 0;
  const exact = buckets / 2;
  if (distance < exact) return first + distance;
  const share = Math.log(distance / exact) / Math.log(128 / exact);
  return first + Math.min(exact + Math.floor(share * (buckets - exact)), buckets - 1);
}

/** Pairs of dimensions for the picture of waves, from the fastest to one still seen to bend. */
export function tellingPairs(pairs, last, base, count = 6) {
  const slowest = Math.min(pairs - 1, pairs * Math.log(Math.max(last / 2, 2)) / Math.log(base));
  return [...new Set(Array.from({ length: count }, (_, at) => Math.round(slowest * at / (count - 1))))];
}
