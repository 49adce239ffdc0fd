// The payload from Python: a JSON head and byte matrices; see payload.py for the layout.

export const BLOCKED = 255;
const glosses = new Map(); // by token, of all payloads

/** The usual translation of a token, for a reader of the other language; "" if none is sure. */
export function glossOf(token) {
  const isLatin = /^[ -~]*$/.test(token);
  return document.documentElement.lang.startsWith("en") === isLatin ? "" : glosses.get(token) ?? "";
}

/** Unpacks head and matrices from one Uint8Array; see payload.py for the layout. */
export function unpack(data) {
  const length = new DataView(data.buffer, data.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  for (const [token, gloss] of Object.entries(head.glosses ?? {})) glosses.set(token, gloss);
  const arrays = {};
  for (const [name, { offset, shape }] of Object.entries(head.arrays)) {
    const size = shape.reduce((product, side) => product * side, 1);
    arrays[name] = data.subarray(4 + length + offset, 4 + length + offset + size);
  }
  return { head, arrays };
}

/** The indices of set bits among the first `size`. */
export function placesOf(bits, size) {
  const found = [];
  for (let at = 0; at < size; at += 1) if (bits[at >> 3] >> (at & 7) & 1) found.push(at);
  return found;
}

/** Decodes non-negative float16 numbers from bytes. */
export function halvesOf(bytes) {
  const powers = Array.from({ length: 31 }, (_, power) => 2 ** (Math.max(power, 1) - 25));
  const halves = new Uint16Array(bytes.slice().buffer);
  const numbers = new Float32Array(halves.length);
  for (let at = 0; at < halves.length; at += 1) {
    const power = halves[at] >> 10;
    numbers[at] = powers[power] * ((halves[at] & 1023) + (power ? 1024 : 0));
  }
  return numbers;
}

/** A weight byte as a number 0 to 1; it encodes the square root, see encode_weights. */
export const weightOf = (code) => (code / 254) ** 2;
