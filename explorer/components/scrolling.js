// Of two sentences side by side, what is wider than its place scrolls in all views of a page at once.

const SCROLLED = "headlight-scrolled";

/** `node` follows every other node of this `part`, and they follow it, as shares of their widths. */
export function scrollTogether(node, part) {
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
