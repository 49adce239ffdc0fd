// The forward pass of models/transformer.py. Tensors are Float32Arrays, row by row: `x` is
// [position, d_model], weights are [out, in] under the names of the checkpoint. Sums are in float64.

import { positionsOf } from "./positions.js";

/** y = x W^T + b, four outputs and two rows at a time. `weight.inner` is the width of its rows. */
export function linear(x, weight, bias) {
  const { inner } = weight;
  const [n, outs] = [x.length / inner, weight.length / inner];
  const y = new Float32Array(n * outs);
  const fours = outs - outs % 4;
  for (let o = 0; o < fours; o += 4) {
    const a = o * inner;
    const [b, c, d] = [a + inner, a + 2 * inner, a + 3 * inner];
    let row = 0;
    for (; row + 1 < n; row += 2) {
      let [p0, p1, p2, p3, q0, q1, q2, q3] = [0, 0, 0, 0, 0, 0, 0, 0];
      const at = row * inner;
      for (let i = 0; i < inner; i += 1) {
        const u = x[at + i];
        const v = x[at + inner + i];
        const w0 = weight[a + i];
        const w1 = weight[b + i];
        const w2 = weight[c + i];
        const w3 = weight[d + i];
        p0 += u * w0; p1 += u * w1; p2 += u * w2; p3 += u * w3;
        q0 += v * w0; q1 += v * w1; q2 += v * w2; q3 += v * w3;
      }
      const to = row * outs + o;
      y[to] = p0; y[to + 1] = p1; y[to + 2] = p2; y[to + 3] = p3;
      y[to + outs] = q0; y[to + outs + 1] = q1; y[to + outs + 2] = q2; y[to + outs + 3] = q3;
    }
    for (; row < n; row += 1) {
      let [p0, p1, p2, p3] = [0, 0, 0, 0];
      const at = row * inner;
      for (let i = 0; i < inner; i += 1) {
        const u = x[at + i];
        p0 += u * weight[a + i]; p1 += u * weight[b + i]; p2 += u * weight[c + i]; p3 += u * weight[d + i];
      }
      const to = row * outs + o;
      y[to] = p0; y[to + 1] = p1; y[to + 2] = p2; y[to + 3] = p3;
    }
  }
  for (let o = fours; o < outs; o += 1) for (let row = 0; row < n; row += 1) {
    let sum = 0;
    for (let i = 0; i < inner; i += 1) sum += x[row * inner + i] * weight[o * inner + i];
    y[row * outs + o] = sum;
  }
  if (bias) for (let at = 0; at < y.length; at += 1) y[at] += bias[at % outs];
  return y;
}

/** LayerNorm, or RMSNorm if there is no bias, over groups of `weight.length` numbers. */
function norm(x, weight, bias, kind, eps) {
  const size = weight.length;
  const y = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += size) {
    let [mean, square] = [0, 0];
    if (kind === "layernorm") { for (let i = 0; i < size; i += 1) mean += x[start + i]; mean /= size; }
    for (let i = 0; i < size; i += 1) square += (x[start + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / size + eps);
    for (let i = 0; i < size; i += 1) y[start + i] = (x[start + i] - mean) * scale * weight[i] + (bias?.[i] ?? 0);
  }
  return y;
}

/** The error function to 1.2e-7. Press et al., Numerical Recipes, erfcc. */
function erf(x) {
  const t = 1 / (1 + Math.abs(x) / 2);
  const terms = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223];
  const tail = t * Math.exp(-x * x + terms.reduce((sum, term) => sum * t + term));
  return x >= 0 ? 1 - tail : tail - 1;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => x / 2 * (1 + erf(x * Math.SQRT1_2)),
  gelu_quick: (x) => x / (1 + Math.exp(-1.702 * x)),
  gelu_tanh: (x) => x / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
};

const capped = (x, cap) => (cap === null ? x : cap * Math.tanh(x / cap));
const plus = (x, y) => x.map((value, at) => value + y[at]);

/** Which key each query may attend to, [query, key]: 1 = may. `keys`: 1 at keys that are visible at all. */
function openCells(n, nKeys, { causal, window, keys }) {
  const open = new Uint8Array(n * nKeys);
  const past = nKeys - n;
  for (let q = 0; q < n; q += 1) for (let k = 0; k < nKeys; k += 1) {
    const distance = Math.abs(k - q - past);
    open[q * nKeys + k] = (!causal || k <= q + past) && (window === null || distance < window) && keys[k];
  }
  return open;
}

/** Softmax of q k^T over the open keys, times v. A row without any gets zeros. `x` [n, heads, d]. */
function attend(config, { q, k, v, n, nKeys }, open, bias) {
  const { n_heads: heads, n_kv_heads: groups, d_head: d, divisor, score_cap: cap } = config;
  const [scores, pattern] = [new Float32Array(heads * n * nKeys), new Float32Array(heads * n * nKeys)];
  const z = new Float32Array(n * heads * d);
  for (let head = 0; head < heads; head += 1) {
    const group = Math.floor(head * groups / heads);
    for (let query = 0; query < n; query += 1) {
      const row = (head * n + query) * nKeys;
      const from = (query * heads + head) * d;
      let [top, sum] = [-Infinity, 0];
      for (let key = 0; key < nKeys; key += 1) {
        const to = (key * groups + group) * d;
        let product = 0;
        for (let i = 0; i < d; i += 1) product += q[from + i] * k[to + i];
        const score = capped(product / divisor, cap) + (bias ? bias(head, query, key) : 0);
        scores[row + key] = score;
        if (open[query * nKeys + key] && score > top) top = score;
      }
      for (let key = 0; key < nKeys; key += 1) if (open[query * nKeys + key]) sum += pattern[row + key] = Math.exp(scores[row + key] - top);
      for (let key = 0; key < nKeys; key += 1) {
        if (!pattern[row + key]) continue;
        const weight = pattern[row + key] /= sum;
        const to = (key * groups + group) * d;
        for (let i = 0; i < d; i += 1) z[from + i] += weight * v[to + i];
      }
    }
  }
  return { scores, pattern, z };
}

/** Rotates pairs of features of x [n, heads, d]; `rotation` is each position's row: cosines, then sines. */
function rotated(x, rotation, d) {
  const y = x.slice();
  const [heads, pairs] = [x.length / (rotation.length * d), rotation[0].length / 2];
  rotation.forEach((row, position) => row.subarray(0, pairs).forEach((cos, pair) => {
    const sin = row[pairs + pair];
    for (let head = 0; head < heads; head += 1) {
      const at = (position * heads + head) * d + 2 * pair;
      y[at] = x[at] * cos - x[at + 1] * sin;
      y[at + 1] = x[at] * sin + x[at + 1] * cos;
    }
  }));
  return y;
}

const joined = (one, other) => {
  const both = new Float32Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
};

/**
 * A model: its `config` and `weights` as explorer/live/weights.py writes them. `run` applies one
 * stack to its tokens, and `logits` reads its output. With `blind`, all queries are zero.
 */
export function modelOf(config, weights, blind = false) {
  const { d_model: width, d_head: d, norm: kind, norm_eps: eps } = config;
  const at = (path) => weights[path];
  const map = (x, path) => linear(x, at(`${path}.weight`), at(`${path}.bias`));
  const normed = (x, path) => (at(`${path}.weight`) ? norm(x, at(`${path}.weight`), at(`${path}.bias`), kind, eps) : x);

  function attention(path, x, { memory, bias, rotation, open, cache, record }) {
    const n = x.length / width;
    const held = cache && (cache[path] ??= {});
    const own = (y, name) => {
      const weight = at(`${path}.${name}.weight`);
      return weight ? norm(y, weight, null, "rmsnorm", eps) : y;
    };
    let q = own(map(x, `${path}.w_q`), "q_norm");
    if (rotation) q = rotated(q, rotation, d);
    if (blind) q.fill(0);
    let [k, v] = [held?.k, held?.v];
    if (!memory || !k) {
      let fresh = own(map(memory ?? x, `${path}.w_k`), "k_norm");
      if (rotation) fresh = rotated(fresh, rotation, d);
      const values = map(memory ?? x, `${path}.w_v`);
      [k, v] = k ? [joined(k, fresh), joined(v, values)] : [fresh, values];
    }
    if (held) Object.assign(held, { k, v, q: held.q ? joined(held.q, q) : q });
    const nKeys = k.length / (config.n_kv_heads * d);
    const cells = open(n, nKeys);
    const { scores, pattern, z } = attend(config, { q, k, v, n, nKeys }, cells, bias);
    if (record) record[path] = { q, k, v, scores, pattern, z, open: cells, n, nKeys };
    return map(z, `${path}.w_o`);
  }

  function feedForward(path, x) {
    const up = map(x, `${path}.w_up`);
    const act = ACTIVATIONS[config.activation];
    if (!config.gated) return map(up.map(act), `${path}.w_down`);
    return map(map(x, `${path}.w_gate`).map((value, i) => act(value) * up[i]), `${path}.w_down`);
  }

  /** One sublayer added to the residual stream; where the norm is, is the config's. */
  function residual(x, path, sublayer) {
    if (config.norm_placement === "post") return normed(plus(x, sublayer(x)), path);
    if (config.norm_placement === "pre") return plus(x, sublayer(normed(x, path)));
    return plus(x, normed(sublayer(x), path));
  }

  /**
   * The output of a stack for `tokens`, after `cache.length` cached ones. `masks`: `causal` and
   * `window` replace the model's own; `valid` and `hidden` hold, per sequence, 1 at real tokens
   * and 1 at keys to block; `pads` false leaves padding visible. `record` takes what each
   * attention computes, and the embeddings.
   */
  function run(stack, tokens, { masks = {}, memory = null, cache = null, record = null } = {}) {
    const past = cache?.length ?? 0;
    const [n, total] = [tokens.length, past + tokens.length];
    const valid = masks.valid?.[stack.stream] ?? new Uint8Array(total).fill(1);
    const positions = positionsOf(valid, total, (place) => past === 0 && config.unplaced.includes(tokens[place]));

    const table = at(`${stack.path}embed.weight`);
    const patches = Array.isArray(tokens[0]);
    let x = patches ? linear(Float32Array.from(tokens.flat(), (grey) => grey / 255), table, at(`${stack.path}embed.bias`)) : new Float32Array(n * width);
    if (!patches) tokens.forEach((token, row) => { for (let i = 0; i < width; i += 1) x[row * width + i] = table[token * width + i] * config.embed_scale; });
    const embedded = x.slice();
    const here = (name) => placedAt(stack, name, positions.slice(past));
    const vectors = here("added");
    const added = vectors && vectors.reduce((out, row, place) => { out.set(row, place * width); return out; }, new Float32Array(n * width));
    if (added) x = plus(x, added);
    x = normed(x, `${stack.path}embed_norm`);
    if (record) record[stack.role] = { embedded, added };
    if (cache) for (const [name, rows] of Object.entries({ embedded, added })) cache[name] = cache[name] ? joined(cache[name], rows) : rows;
    const far = here("rotation");
    const near = here("near_rotation") ?? far;
    const bias = biasOf(stack, positions, past);

    for (let layer = 0; layer < stack.layers; layer += 1) {
      const path = `${stack.path}blocks.${layer}`;
      const begun = x;
      const { open, across } = rulesOf(stack, masks, layer);
      const turned = config.near_layers.includes(layer) ? near : far;
      const still = config.still_layers.includes(layer);
      x = residual(x, `${path}.attn_norm`, (h) => normed(
        attention(`${path}.attn`, h, { bias: still ? null : bias, rotation: still ? null : turned, open, cache, record }), `${path}.attn_out_norm`));
      if (memory) x = residual(x, `${path}.cross_attn_norm`, (h) => attention(`${path}.cross_attn`, h, { memory, open: across, cache, record }));
      const forward = (h) => normed(feedForward(`${path}.ffn`, h), `${path}.ffn_out_norm`);
      x = config.parallel ? plus(x, forward(normed(begun, `${path}.ffn_norm`))) : residual(x, `${path}.ffn_norm`, forward);
    }
    if (cache) cache.length = total;
    return normed(x, `${stack.path}final_norm`);
  }

  /** What one pass over all cached tokens of a stack records: nothing but attention is computed again. */
  function recall(stack, cache, { masks = {} } = {}) {
    const { length: n, embedded, added } = cache;
    const bias = biasOf(stack, positionsOf(masks.valid?.[stack.stream] ?? [], n), 0);
    const record = { [stack.role]: { embedded, added } };
    for (let layer = 0; layer < stack.layers; layer += 1) {
      const { open, across } = rulesOf(stack, masks, layer);
      for (const name of stack.crosses ? ["attn", "cross_attn"] : ["attn"]) {
        const path = `${stack.path}blocks.${layer}.${name}`;
        const { q, k, v } = cache[path];
        const nKeys = k.length / (config.n_kv_heads * d);
        const cells = (name === "attn" ? open : across)(n, nKeys);
        record[path] = { q, k, v, ...attend(config, { q, k, v, n, nKeys }, cells, name === "attn" && !config.still_layers.includes(layer) ? bias : null), open: cells, n, nKeys };
      }
    }
    return record;
  }

  /** The open cells of a layer's own attention and of its cross-attention, for rows and keys. */
  function rulesOf(stack, masks, layer) {
    const near = config.near_layers.includes(layer) ? config.window : null;
    const seen = (stream, count) => Uint8Array.from({ length: count }, (_, key) => (
      ((masks.pads ?? true) === false || (masks.valid?.[stream]?.[key] ?? 1)) && !masks.hidden?.[stream]?.[key] ? 1 : 0));
    return {
      open: (rows, count) => openCells(rows, count, {
        causal: stack.causal && (masks.causal ?? true), window: masks.window ?? near, keys: seen(stack.stream, count) }),
      across: (rows, count) => openCells(rows, count, { causal: false, window: null, keys: seen("src", count) }),
    };
  }

  /** The rows of a table of explorer/live/weights.py at these positions; null without such a table. */
  function placedAt(stack, name, positions) {
    const table = at(`${stack.path}positions.${name}`);
    const nowhere = at(`${stack.path}positions.unplaced`);
    return table ? positions.map((position) => (position < 0 ? nowhere : table.subarray(position * table.inner, (position + 1) * table.inner))) : null;
  }

  function biasOf(stack, positions, past) {
    const table = at(`${stack.path}positions.bias`);
    if (!table) return null;
    const middle = (table.inner - 1) / 2;
    return (head, query, key) => table[head * table.inner + middle + positions[key] - positions[past + query]];
  }

  /** The logits of the rows of a stack's output. */
  function logits(x) {
    let h = x;
    if (config.head_net) h = normed(map(h, "head.linear").map(ACTIVATIONS[config.activation]), "head.norm");
    const y = map(h, "unembed");
    return config.logit_cap === null ? y : y.map((value) => capped(value, config.logit_cap));
  }

  return { config, run, recall, logits, placedAt, withZeroQueries: () => modelOf(config, weights, true), stacks: config.stacks, last: config.stacks.at(-1) };
}
