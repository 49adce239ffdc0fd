// What is wider than its place scrolls: it shows at which edges it goes on, and of two sentences
// side by side it scrolls in all views of a page at once.

const SCROLLED = "headlight-scrolled";

/** `node` follows every other node of this `part`, and they follow it, as shares of their widths. */
function scrollTogether(node, part) {
  let following = false;
  const room = () => node.scrollWidth - node.clientWidth;
  node.addEventListener("scroll", () => {
    if (!following && room() > 0) {
      document.dispatchEvent(new CustomEvent(SCROLLED, { detail: { node, part, share: node.scrollLeft / room() } }));
    }
    following = false;
  });
  document.addEventListener(SCROLLED, function follow({ detail }) {
    if (!node.isConnected) document.removeEventListener(SCROLLED, follow); // redrawn since
    else if (detail.node !== node && detail.part === part && room() > 0) {
      const wanted = Math.round(detail.share * room());
      following = wanted !== node.scrollLeft; // a scroll event comes for what moves only
      node.scrollLeft = wanted;
    }
  });
}

/** `scroller`, already filled, in a frame that marks the edges beyond which there is more. */
function withEdges(scroller) {
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

const EDGE = 32; // px that fade out at an edge

/** Scrolls to what begins at `left` and is `width` wide, unless it is in sight already. */
function scrollInto(scroller, left, width) {
  const [start, end] = [scroller.scrollLeft, scroller.scrollLeft + scroller.clientWidth];
  const fades = [start > 1 ? EDGE : 0, end < scroller.scrollWidth - 1 ? EDGE : 0];
  if (left < start + fades[0] || left + width > end - fades[1]) {
    scroller.scrollLeft = left + width / 2 - scroller.clientWidth / 2;
  }
}
