// A few canvases behind a grid, on which all its pictures are painted. One for each picture would be
// a layer of its own, of which a browser puts a thousand together for every frame: 0.1 s.

import { fit } from "./canvas.js";
import { el } from "./dom.js";

const SHEET = 1024; // px of the grid on one sheet, about: only sheets in sight are drawn

/** { node, lay(heads, places, wide, tall), of(head): { context, left, top } or undefined, moving(heads) }. */
export function sheetsBehind() {
  const node = el("div", "sheets");
  let sheetOf = new Map(); // head -> its sheet, and where its picture is

  /** Empty sheets `wide` px wide behind the pictures of these heads, each under whole rows of them. */
  function lay(heads, places, wide, tall) {
    node.replaceChildren();
    const sheets = [];
    sheetOf = new Map(heads.map((head, at) => {
      const [left, top] = places[at];
      const sheet = (sheets[Math.floor(top / SHEET)] ??= { top, end: top, wide, context: null });
      sheet.top = Math.min(sheet.top, top);
      sheet.end = Math.max(sheet.end, top + tall);
      return [head, { sheet, left, top }];
    }));
  }

  /** The context of a sheet, which takes memory from its first picture on. */
  function contextOf(sheet) {
    if (sheet.context === null) {
      const canvas = el("canvas");
      canvas.setAttribute("aria-hidden", "true");
      canvas.style.top = sheet.top + "px";
      node.append(canvas);
      sheet.context = fit(canvas, sheet.wide, sheet.end - sheet.top);
    }
    return sheet.context;
  }

  function of(head) {
    const found = sheetOf.get(head);
    return found && { context: contextOf(found.sheet), left: found.left, top: found.top - found.sheet.top };
  }

  /** Returns a function that moves the pictures to their new places, once the cells of `heads` are there. */
  function moving(heads) {
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const before = still ? [] : [...sheetOf.keys()].map((head) => [head, heads[head].cell.getBoundingClientRect()]);
    return () => before.forEach(([head, from]) => move(head, heads[head], from));
  }

  /** A copy of the picture moves with its cell, in front of the sheets, which are hidden meanwhile. */
  function move(head, { cell, picture }, from) {
    const [{ context, left, top }, copy, to] = [of(head), el("canvas"), cell.getBoundingClientRect()];
    const [wide, tall, ratio] = [picture.clientWidth, picture.clientHeight, context.getTransform().a];
    fit(copy, wide, tall).drawImage(context.canvas, left * ratio, top * ratio, wide * ratio, tall * ratio, 0, 0, wide, tall);
    picture.prepend(copy);
    node.style.visibility = "hidden";
    const there = { transform: `translate(${from.left - to.left}px, ${from.top - to.top}px)` };
    const motion = cell.animate([there, { transform: "none" }], { duration: 400, easing: "ease-in-out" });
    motion.onfinish = () => { copy.remove(); node.style.visibility = ""; };
  }

  return { node, lay, of, moving };
}
