// Synchronises horizontal scrolling of the views of two sentences side by side.

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
    if (!node.isConnected) document.removeEventListener(SCROLLED, follow); // it was redrawn
    else if (detail.node !== node && detail.part === part && room() > 0) {
      const wanted = Math.round(detail.share * room());
      following = wanted !== node.scrollLeft; // an unchanged position fires no scroll event
      node.scrollLeft = wanted;
    }
  });
}
