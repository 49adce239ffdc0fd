// Weights from the scripts that explorer/live/weights.py writes.

const ESCAPED = ["\0", "\n", "\r", '"', "\\"];
const FIRST_ESCAPE = 0xa1;

/** The bytes of a text with seven bits in each character; five of those are written as others. */
export function bytesOf(text) {
  const bytes = new Uint8Array(Math.floor(text.length * 7 / 8));
  let [held, bits, at] = [0, 0, 0];
  for (let i = 0; i < text.length; i += 1) {
    let code = text.charCodeAt(i);
    if (code >= FIRST_ESCAPE) code = ESCAPED[code - FIRST_ESCAPE].charCodeAt(0);
    held = ((held << 7) | code) & 0x7fff;
    bits += 7;
    if (bits >= 8) {
      bits -= 8;
      bytes[at] = held >> bits;
      at += 1;
    }
  }
  return bytes;
}

/** Tensors by name from the compressed bytes of all parts; int8 rows are multiplied by their scales. */
export async function tensorsOf(parts, tensors, tied) {
  const stream = new Blob(parts).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const found = {};
  let at = 0;
  const floats = (count) => {
    const values = new Float32Array(buffer.slice(at, at + 4 * count));
    at += 4 * count;
    return values;
  };
  for (const [name, shape, kind] of tensors) {
    const size = shape.reduce((product, side) => product * side, 1);
    const inner = shape.at(-1);
    if (kind === "int8") {
      const scales = floats(shape[0]);
      const codes = new Int8Array(buffer, at, size);
      found[name] = new Float32Array(size);
      for (let row = 0; row < shape[0]; row += 1) for (let i = row * inner; i < (row + 1) * inner; i += 1) found[name][i] = codes[i] * scales[row];
      at += size;
    } else found[name] = floats(size);
    found[name].inner = inner;
  }
  for (const [name, same] of Object.entries(tied)) found[name] = found[same];
  return found;
}
