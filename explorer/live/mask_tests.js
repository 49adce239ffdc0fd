// The mask tests of analysis/mask_tests/certify.py in the browser: what must not change, and how
// much it does. Only behaviour counts; no mask is read.

const [TOLERANCE, PADS] = [1e-5, 2];

const apart = (one, other) => one.reduce((most, each, at) => {
  const difference = Math.abs(each - other[at]);
  return difference > most || Number.isNaN(difference) ? difference : most;
}, 0);
const most = (values) => values.reduce((top, each) => (each > top || Number.isNaN(each) ? each : top), 0);

/** The tests of a model for one text, given as its ids per sequence: [name, () => deviation] each. */
export function maskTests(model, { src, tgt }, otherToken) {
  const { config, stacks, last } = model;
  const { d_model: width, marks } = config;
  const pad = marks.pad ?? tgt[0];
  const ones = (count) => new Uint8Array(count).fill(1);

  /** The outputs and records of a row. `valid` holds 1 at real tokens, per sequence. */
  function pass(row, { valid = {}, memory: given = null, change = null } = {}) {
    const record = {};
    const masks = { valid: { ...(row.src ? { src: valid.src ?? ones(row.src.length) } : {}), tgt: valid.tgt ?? ones(row.tgt.length) } };
    const inner = change ? change(model) : model;
    const memory = given ?? (row.src ? inner.run(stacks[0], row.src, { masks, record }) : null);
    return { out: inner.run(last, row.tgt, { masks, memory, record }), memory, record, masks };
  }
  const plain = pass({ src, tgt });
  const changed = (tokens, at) => tokens.map((token, place) => (place === at ? otherToken(token) : token));
  const rows = (x, from, to) => x.subarray(from * width, to * width);
  const sites = (of) => Object.entries(of.record).filter(([, each]) => each.pattern);
  const own = (of, stack) => sites(of).filter(([path]) => path.startsWith(`${stack.path}blocks`) && !path.endsWith("cross_attn"));
  const across = (of) => sites(of).filter(([path]) => path.endsWith("cross_attn"));

  const padding = (tokens) => Array.from({ length: PADS }, () => (Array.isArray(tokens[0]) ? tokens[0].map(() => 0) : pad));
  const padded = (side) => {
    const add = (tokens) => (tokens ? (side === "left" ? [...padding(tokens), ...tokens] : [...tokens, ...padding(tokens)]) : null);
    const real = (tokens) => Uint8Array.from(add(tokens), (_, at) => (side === "left" ? at >= PADS : at < tokens.length) ? 1 : 0);
    return [{ src: add(src), tgt: add(tgt) }, { valid: { ...(src ? { src: real(src) } : {}), tgt: real(tgt) } }];
  };
  const unmoved = (side, found) => apart(plain.out, rows(found.out, side === "left" ? PADS : 0, tgt.length + (side === "left" ? PADS : 0)));
  /** The largest weight of the cells that `asked(key, query, nKeys)` names, in some sites. */
  const weight = (some, asked) => most(some.flatMap(([, { pattern, n, nKeys }]) => (
    Array.from(pattern, (value, at) => (asked(at % nKeys, Math.floor(at / nKeys) % n, nKeys) ? value : 0)))));
  const causal = last.causal;

  const tests = {
    future_leak: causal && (() => most(tgt.map((_, at) => (at === 0 ? 0
      : apart(rows(plain.out, 0, at), rows(pass({ src, tgt: changed(tgt, at) }, { memory: plain.memory }).out, 0, at)))))),
    future_mass: causal && (() => weight(own(plain, last), (key, query) => key > query)),
    pad_mass: () => {
      const found = pass(...padded("right"));
      return most(stacks.map((stack) => weight(own(found, stack), (key, _, nKeys) => key >= nKeys - PADS)));
    },
    pad_content: () => {
      const [row, options] = padded("right");
      const written = (tokens) => tokens?.map((token, at) => (at >= tokens.length - PADS ? otherToken(token) : token));
      return unmoved("right", pass({ src: written(row.src), tgt: written(row.tgt) }, options));
    },
    padding_right: () => unmoved("right", pass(...padded("right"))),
    padding_left: () => unmoved("left", pass(...padded("left"))),
    cross_mask: src && (() => weight(across(pass(...padded("right"))), (key, _, nKeys) => key >= nKeys - PADS)),
    row_sums: () => most(sites(plain).flatMap(([, { pattern, nKeys }]) => {
      const sums = new Float64Array(pattern.length / nKeys);
      pattern.forEach((value, at) => { sums[Math.floor(at / nKeys)] += value; });
      return Array.from(sums, (sum) => Math.abs(sum - 1));
    })),
    open_cells: () => {
      const found = pass({ src, tgt }, { change: (each) => each.withZeroQueries() });
      const shut = (some, visible) => weight(some.map(([path, site]) => [path, { ...site, pattern: site.pattern.map((value) => (value > 0 ? 0 : 1)) }]), visible);
      return most([...stacks.map((stack) => shut(own(found, stack), (key, query) => !stack.causal || key <= query)), shut(across(found), () => true)]);
    },
    needle: () => {
      const zero = { change: (each) => each.withZeroQueries() };
      const end = (row) => rows(pass(row, zero).out, tgt.length - 1, tgt.length);
      const before = end({ src, tgt });
      const silent = (stream, tokens) => tokens.filter((_, at) => apart(before, end({ src, tgt, [stream]: changed(tokens, at) })) === 0).length / tokens.length;
      return most([silent("tgt", tgt), ...(src ? [silent("src", src)] : [])]);
    },
    cache: causal && (() => {
      const cache = { length: 0 };
      const steps = [tgt.slice(0, 1), tgt.slice(1, 3), ...tgt.slice(3).map((token) => [token])].filter((each) => each.length);
      const parts = steps.map((tokens) => model.run(last, tokens, { memory: plain.memory, cache }));
      return apart(plain.out, parts.flatMap((each) => Array.from(each)));
    }),
    prefix: causal && (() => most(tgt.map((_, at) => apart(rows(plain.out, at, at + 1), rows(pass({ src, tgt: tgt.slice(0, at + 1) }, { memory: plain.memory }).out, at, at + 1))))),
    mixing: () => most(sites(plain).map(([, site]) => mixed(site, config))),
  };
  return Object.entries(tests).filter(([, run]) => run);
}

/** How far the heads' outputs are from pattern times values. */
function mixed({ pattern, v, z, n, nKeys }, { n_heads: heads, n_kv_heads: groups, d_head: d }) {
  const again = new Float32Array(z.length);
  for (let head = 0; head < heads; head += 1) for (let query = 0; query < n; query += 1) for (let i = 0; i < d; i += 1) {
    let sum = 0;
    for (let key = 0; key < nKeys; key += 1) sum += pattern[(head * n + query) * nKeys + key] * v[(key * groups + Math.floor(head * groups / heads)) * d + i];
    again[(query * heads + head) * d + i] = sum;
  }
  return apart(z, again);
}

export const passes = (deviation) => deviation <= TOLERANCE;
