// Lazy drawing: elements are drawn when they come into sight, to keep the first frame fast.

const waiting = new Map(); // element -> its draw function
let isPrinting = false; // in print everything is in sight

const observer = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) if (isIntersecting) drawNow(target);
}, { rootMargin: "100% 0px" }); // draw one screen ahead of scrolling
window.addEventListener("beforeprint", () => { isPrinting = true; [...waiting.keys()].forEach(drawNow); });
window.addEventListener("afterprint", () => { isPrinting = false; });

function drawNow(node) {
  const draw = waiting.get(node);
  waiting.delete(node);
  observer.unobserve(node);
  draw?.(node);
}

/** Whether a box in screen coordinates is visible. */
export const isInSight = ({ top, bottom }) => isPrinting || (bottom > 0 && top < window.innerHeight);

/**
 * Calls `draw(node)` once for each node when it comes into sight or onto paper, in a later frame
 * than this one. A node that waits already waits for the newer `draw`.
 */
export function whenSeen(nodes, draw) {
  for (const node of waiting.keys()) if (!node.isConnected) { waiting.delete(node); observer.unobserve(node); }
  for (const node of nodes) {
    waiting.set(node, draw);
    if (isPrinting) drawNow(node);
    else { observer.unobserve(node); observer.observe(node); } // tells again of one in sight already
  }
}
