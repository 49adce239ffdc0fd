// A flow as the payloads of the app's views: components/start.py and components/heads_view.py.

const BLOCKED = 255;
const MOST_SIDE = 24; // rows and columns of an opened head

/** Head and matrices as one byte string: components/payload.py. */
export function pack(head, matrices) {
  const arrays = {};
  let offset = 0;
  for (const [name, { bytes, shape }] of Object.entries(matrices)) {
    arrays[name] = { offset, shape };
    offset += bytes.length;
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...head, arrays }));
  const packed = new Uint8Array(4 + text.length + offset);
  new DataView(packed.buffer).setUint32(0, text.length, true);
  packed.set(text, 4);
  for (const [name, { bytes }] of Object.entries(matrices)) packed.set(bytes, 4 + text.length + arrays[name].offset);
  return packed;
}

/** Head and matrices of a packed payload. */
export function unpack(packed) {
  const length = new DataView(packed.buffer, packed.byteOffset).getUint32(0, true);
  const { arrays, ...head } = JSON.parse(new TextDecoder().decode(packed.subarray(4, 4 + length)));
  const matrices = {};
  for (const [name, { offset, shape }] of Object.entries(arrays)) {
    const size = shape.reduce((product, side) => product * side, 1);
    matrices[name] = { shape, bytes: packed.subarray(4 + length + offset, 4 + length + offset + size) };
  }
  return { head, matrices };
}

/** Weights as bytes round(254 sqrt(w)); cells that are not `open` as 255. */
const weightBytes = (weights, open) => Uint8Array.from(weights, (weight, at) => (
  open(at) ? Math.floor(254 * Math.sqrt(Math.min(weight, 1)) + 0.5) : BLOCKED));

/** Signed numbers as bytes: 127 is zero, 254 the largest magnitude. */
function signedBytes(values) {
  const top = values.reduce((most, each) => Math.max(most, Math.abs(each)), 0) || 1;
  return Uint8Array.from(values, (value) => 127 + Math.round(127 * value / top));
}

const round = (value, digits) => Number(value.toFixed(digits));

/** The payload of the picture of the whole model, without words: `worded` adds those. */
export function startPayload(flow, { masks, mask, diff, door, opened }) {
  const matrices = {};
  const lanes = flow.lanes.map((lane, l) => {
    const n = lane.tokens.length;
    for (const name of ["embedded", "waves"]) {
      if (lane[name]) matrices[`${name}${l}`] = { bytes: signedBytes(lane[name].values), shape: [n, lane[name].width] };
    }
    const blocks = lane.blocks.map((sites, b) => ({ sites: sites.map(({ role, heads, seen, rows, there }, s) => {
      const { n: nq, nKeys: nk, open, pattern } = seen;
      matrices[`cells${l}.${b}.${s}`] = { bytes: weightBytes(pattern, (at) => open[at % (nq * nk)]), shape: [heads, nq, nk] };
      const count = rows ? rows.length / (heads * nk) : 0;
      matrices[`rows${l}.${b}.${s}`] = {
        bytes: weightBytes(rows ?? [], (at) => there[Math.floor(at / (heads * nk)) * nk + at % nk]), shape: [count, heads, nk] };
      return { role, heads, keys: nk, href: "" };
    }) }));
    return { stream: lane.stream, tokens: lane.tokens, special: lane.special, given: lane.given, turns: lane.turns,
      embedded: true, waves: lane.waves?.width ?? 0, blocks };
  });
  const moments = flow.moments.map((moment) => ({ ...moment, chances: moment.chances.map((each) => round(each, 5)) }));
  const head = { lanes, moments, masks, mask, diff, door, opened: null, links: {}, said: flow.said, prompt: flow.prompt };
  if (door === "head" && opened) head.opened = openedHead(flow, opened, matrices);
  return { head, matrices };
}

/** The numbers of one head, of its first tokens. */
function openedHead({ lanes }, [l, b, s, head], matrices) {
  const site = lanes[l].blocks[b][s];
  const { n, nKeys, scores, pattern, open } = site.seen;
  const queries = lanes[l].tokens.slice(0, MOST_SIDE);
  const keys = lanes.find(({ stream }) => stream === site.keys).tokens.slice(0, MOST_SIDE);
  const grid = (value) => queries.map((_, q) => Array.from(keys.keys(), (k) => value(q, k)));
  for (const name of ["q", "k", "v", "z"]) {
    const count = name === "q" || name === "z" ? n : nKeys;
    const shown = name === "q" || name === "z" ? queries.length : keys.length;
    const wide = site.seen[name].length / count; // of all heads of a token
    const d = site.seen.q.length / n / site.heads;
    const own = Math.floor(head * wide / d / site.heads);
    const values = Array.from({ length: shown }, (_, row) => (
      Array.from(site.seen[name].subarray(row * wide + own * d, row * wide + (own + 1) * d)))).flat();
    matrices[`open_${name}`] = { bytes: signedBytes(values), shape: [shown, d] };
  }
  const at = (q, k) => (head * n + q) * nKeys + k;
  return {
    at: [l, b, s], head, queries, keys,
    scores: grid((q, k) => round(scores[at(q, k)], 3)),
    allowed: grid((q, k) => open[q * nKeys + k]),
    pattern: grid((q, k) => round(pattern[at(q, k)], 5)),
    whole: [n, nKeys], links: [],
  };
}

/** The weights that are distinct when displayed: 0, four steps up to 0.04 % for the logarithmic scale, 0.1 % steps up to 9.9 %, whole percents. */
export const DIGITS = [0, ...Array.from({ length: 4 }, (_, n) => (n + 1) / 10000),
  ...Array.from({ length: 99 }, (_, n) => (n + 1) / 1000), ...Array.from({ length: 91 }, (_, n) => (n + 10) / 100)];

function digitOf(weight) {
  if (weight === 0) return 0;
  if (weight < 0.0005) return Math.min(4, Math.max(1, Math.round(weight * 10000)));
  return weight < 0.0995 ? Math.floor(weight * 1000 + 0.5) + 4 : Math.floor(weight * 100 + 0.5) + 94;
}

let made = 0;

/** The payload of all heads of one kind of attention. */
export function headsPayload(flow, role, { words, queryTitle, keyTitle }) {
  const lane = flow.lanes.find(({ blocks }) => blocks[0].some((site) => site.role === role));
  const sites = lane.blocks.map((block) => block.find((site) => site.role === role));
  const [{ heads, keys: stream, seen: { n, nKeys } }] = sites;
  const keyLane = flow.lanes.find((each) => each.stream === stream);
  const count = sites.length * heads;
  const cell = n * nKeys;
  const weights = new Float32Array(count * cell);
  const blocked = new Uint8Array(count * cell);
  sites.forEach(({ seen }, layer) => {
    weights.set(seen.pattern, layer * heads * cell);
    for (let head = 0; head < heads; head += 1) for (let at = 0; at < cell; at += 1) blocked[(layer * heads + head) * cell + at] = seen.open[at] ? 0 : 1;
  });
  const codes = weightBytes(weights, (at) => !blocked[at]);
  const some = new Uint8Array(cell);
  codes.forEach((code, at) => { if (code !== BLOCKED) some[at % cell] = 1; });
  const open = some.includes(1) ? Array.from(some) : Array.from(some, () => 1);
  const bits = new Uint8Array(Math.ceil(cell / 8));
  open.forEach((is, at) => { if (is) bits[at >> 3] |= 1 << (at & 7); });
  const places = open.flatMap((is, at) => (is ? [at] : []));
  const cells = Uint8Array.from({ length: count * places.length }, (_, at) => codes[Math.floor(at / places.length) * cell + places[at % places.length]]);
  const sums = new Float64Array(count * n);
  weights.forEach((weight, at) => { sums[Math.floor(at / nKeys)] += weight; });
  const named = (tokens, special, title, of) => ({ tokens, special, title, stream: of });
  const before = flow.moments.map(({ thread, tokens, chosen }) => [thread, tokens[chosen]]);
  const queries = named(lane.tokens, lane.special, queryTitle, lane.stream);
  if (lane.stream === "tgt") {
    const after = new Map(before);
    queries.labels = lane.tokens.map((token, at) => (after.has(at) ? `${token} ⟶ ${after.get(at)}` : token));
  }
  made += 1;
  const head = {
    queries, keys: named(keyLane.tokens, keyLane.special, keyTitle, stream),
    labels: Array.from({ length: count }, (_, at) => `L${Math.floor(at / heads) + 1}·H${at % heads + 1}`),
    layers: sites.length, columns: heads, step: 1, small: `live${made}`, alone: true, digits: DIGITS, sums: null,
    top: weights.reduce((most, each) => Math.max(most, each), 0.01), least: 0.02, most: 3, file: "headlight", measure: null, words,
    chosen: { opened: null, pinned: [], query: null, key: null, scale: "linear", shared: true, by_measure: false,
      shown: Array.from({ length: count }, (_, at) => at), reasons: [], summaries: Array.from({ length: count }, (_, at) => summary(at)), turn: null },
  };
  function summary(index) {
    return lane.tokens.map((query, q) => {
      const row = Array.from(weights.subarray(index * cell + q * nKeys, index * cell + (q + 1) * nKeys), (weight, k) => (
        blocked[index * cell + q * nKeys + k] ? -1 : weight));
      const best = row.indexOf(Math.max(...row));
      return row[best] < 0 ? `${query} → –` : `${query} → ${keyLane.tokens[best]} ${Math.round(100 * row[best])} %`;
    }).join("; ");
  }
  return pack(head, {
    cells: { bytes: cells, shape: [count, places.length] },
    open: { bytes: bits, shape: [bits.length] },
    exact: { bytes: Uint8Array.from(weights, (weight, at) => (blocked[at] ? 0 : digitOf(weight))), shape: [count, n, nKeys, 1] },
    sums: { bytes: new Uint8Array(sums.buffer), shape: [count, n * 8] },
    blocked: { bytes: blocked, shape: [count, n, nKeys] },
  });
}

/** The tokens common to two outputs, removed and added, as [token, status]. */
export function diffOf(before, after) {
  const length = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) for (let j = after.length - 1; j >= 0; j -= 1) {
    length[i][j] = before[i] === after[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) { found.push([before[i], "same"]); i += 1; j += 1; }
    else if (j >= after.length || (i < before.length && length[i + 1][j] >= length[i][j + 1])) { found.push([before[i], "gone"]); i += 1; }
    else { found.push([after[j], "new"]); j += 1; }
  }
  return found;
}
