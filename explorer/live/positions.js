// Positional encodings, as models/positions.py defines them.

/** The position of each token: padding does not count, and has that of the token before it; a token that `isUnplaced` does not count either, and has -1. */
export function positionsOf(valid, total, isUnplaced = () => false) {
  let count = -1;
  return Array.from({ length: total }, (_, at) => {
    const isReal = valid[at] ?? 1;
    if (isReal && isUnplaced(at)) return -1;
    if (isReal) count += 1;
    return Math.max(count, 0);
  });
}

/** Pairs of dimensions for the picture of waves, from the fastest to one still seen to bend. */
export function tellingPairs(pairs, last, base, count = 6) {
  const slowest = Math.min(pairs - 1, pairs * Math.log(Math.max(last / 2, 2)) / Math.log(base));
  return [...new Set(Array.from({ length: count }, (_, at) => Math.round(slowest * at / (count - 1))))];
}
