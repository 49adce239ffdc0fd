// Scroll containers that mark the edges with hidden content.

import { el } from "./dom.js";

/** Wraps `scroller`, already filled, in a frame that marks edges with hidden content. */
export function withEdges(scroller) {
  const frame = el("div", "edges");
  frame.append(scroller);
  const mark = () => {
    const { scrollLeft, scrollWidth, clientWidth } = scroller;
    frame.classList.toggle("before", scrollLeft > 1);
    frame.classList.toggle("beyond", scrollLeft + clientWidth < scrollWidth - 1);
  };
  scroller.addEventListener("scroll", mark);
  const sizes = new ResizeObserver(mark);
  for (const node of [scroller, ...scroller.children]) sizes.observe(node);
  return frame;
}

const EDGE = 32; // width of the fade at an edge in px

/** Scrolls to the range from `left`, `width` wide, unless it is visible. */
export function scrollInto(scroller, left, width) {
  const [start, end] = [scroller.scrollLeft, scroller.scrollLeft + scroller.clientWidth];
  const fades = [start > 1 ? EDGE : 0, end < scroller.scrollWidth - 1 ? EDGE : 0];
  if (left < start + fades[0] || left + width > end - fades[1]) {
    scroller.scrollLeft = left + width / 2 - scroller.clientWidth / 2;
  }
}

/** Stores the scroll position in `last`. A replaced scroller may still send an event, at position 0. */
export function keepPlace(scroller, last) {
  scroller.addEventListener("scroll", () => { if (scroller.isConnected) last.scrolled = scroller.scrollLeft; });
}

/** Keeps the scroll position when new data redraw a view: call what this returns once it is drawn. */
export function keepScrolled(root, scroller) {
  const place = root.scrolled;
  keepPlace(scroller, root);
  return () => { if (place) scroller.scrollLeft = place; };
}
