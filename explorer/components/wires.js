// The arrows of the machine view, from straight segments: between parts, past parts, between columns.

import { el } from "./dom.js";

const HEAD = 5; // px from the middle of an arrowhead to its edges

/** A line through points [x, y], each vertical or horizontal from the one before, with an arrowhead. */
function wire(kind, ...points) {
  const pieces = points.slice(1).map(([x, y], index) => {
    const [fromX, fromY] = points[index];
    const node = el("i", kind);
    const [left, top] = [Math.min(x, fromX), Math.min(y, fromY)];
    Object.assign(node.style, {
      left: `${left - 1}px`, top: `${top - 1}px`,
      width: `${Math.abs(x - fromX) + 2}px`, height: `${Math.abs(y - fromY) + 2}px`,
    });
    return node;
  });
  const [[beforeX], [x, y]] = points.slice(-2);
  const way = x > beforeX ? "right" : x < beforeX ? "left" : "down";
  const head = el("i", `${kind} head ${way}`);
  Object.assign(head.style, { left: `${x - HEAD}px`, top: `${y - HEAD}px` });
  return [...pieces, head];
}

/** All arrows between the boxes of `machine`, in its own px. */
export function wiresOf(machine, boxes) {
  const origin = machine.getBoundingClientRect();
  const at = boxes.map(({ node }) => {
    const { left, right, top, bottom } = node.getBoundingClientRect();
    return {
      left: left - origin.left, right: right - origin.left,
      top: top - origin.top, bottom: bottom - origin.top,
      x: (left + right) / 2 - origin.left, y: (top + bottom) / 2 - origin.top,
      section: node.parentElement, column: node.parentElement.parentElement,
    };
  });
  const GAP = 10; // above a box: where the line past it branches off
  return boxes.flatMap((box, index) => {
    const to = at[index], wires = [];
    let before = index - 1;
    while (before >= 0 && boxes[before].aside) before -= 1;
    const from = at[before];
    if (from?.column === to.column && !box.aside) {
      // In sections side by side the stream enters each from above.
      const start = from.bottom <= to.top && Math.abs(from.x - to.x) < 1 ? from.bottom : to.top - 16;
      wires.push(...wire("flow", [to.x, start], [to.x, to.top]));
    }
    if (box.skips) {
      const past = at[index - box.skips], side = to.right + 12;
      wires.push(...wire("skip", [past.x, past.top - GAP], [side, past.top - GAP], [side, to.y], [to.right, to.y]));
    }
    if (box.receives) {
      const source = at[boxes.findIndex(({ sends }) => sends === box.receives)];
      if (!source) return wires;
      const beside = source.right < to.left;
      const bus = to.left - (beside ? 41 : 12);
      wires.push(...wire("sent", [beside ? source.right : source.left, source.y], [bus, source.y], [bus, to.y], [to.left, to.y]));
    }
    return wires;
  });
}
