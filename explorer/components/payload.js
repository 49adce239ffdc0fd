// What Python sent: a JSON head and matrices of bytes; payload.py describes the layout.

export const BLOCKED = 255;

/** Head and matrices out of one Uint8Array; payload.py describes the layout. */
export function unpack(data) {
  const length = new DataView(data.buffer, data.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  const arrays = {};
  for (const [name, { offset, shape }] of Object.entries(head.arrays)) {
    const size = shape.reduce((product, side) => product * side, 1);
    arrays[name] = data.subarray(4 + length + offset, 4 + length + offset + size);
  }
  return { head, arrays };
}

/** A weight's byte as a number 0 to 1: the root was sent, see encode_weights. */
export const weightOf = (code) => (code / 254) ** 2;
