// A few canvases behind a grid, on which all its pictures are painted. One for each picture would be
// a layer of its own, of which a browser puts a thousand together for every frame: 0.1 s.

import { fit } from "./canvas.js";
import { el } from "./dom.js";

const SHEET = 1024; // px of the grid on one sheet, about: only sheets in sight are drawn

/** { node, lay(heads, places, wide, tall), of(head): { context, left, top } or undefined }. */
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

  return { node, lay, of };
}
