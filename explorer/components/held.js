// A cache of received thumbnails: Python does not resend those that the browser reports.

const held = (globalThis.headlightHeads ??= new Map());
const MOST_HELD = 4;

/** Stores received thumbnails, or looks up omitted ones; false if there are none. */
export function hold(head, arrays) {
  const cells = arrays.cells.length > 0 ? arrays.cells.slice() : held.get(head.small);
  if (!cells) return head.labels.length === 0;
  arrays.cells = cells;
  held.delete(head.small);
  held.set(head.small, cells);
  if (held.size > MOST_HELD) held.delete(held.keys().next().value);
  return true;
}
