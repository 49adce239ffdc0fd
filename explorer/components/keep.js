// Picture export: a canvas on a plain background with a title, as a PNG made in the browser.

import { fit, sharpness } from "./canvas.js";
import { el } from "./dom.js";

/**
 * Draws sharply with `draw`, then offers `canvas` with `title` above it as a download.
 * `meanings` are the lines of a legend below it: [words, paints 18 x 18 pixels of a context].
 */
export function keepPicture(canvas, draw, title, theme, name, meanings = []) {
  sharpness.fixed = 3;
  draw();
  const [margin, head, line] = [16, 30, 26];
  const page = el("canvas");
  const [wide, tall] = [canvas.width / 3, canvas.height / 3];
  const letters = theme.font(14, 600);
  const broad = Math.max(wide, ...meanings.map(([text]) => widthOf(text, theme.font(13)) + 28), widthOf(title, letters)) + 2 * margin;
  const high = tall + head + margin + meanings.length * line;
  const context = fit(page, broad, high);
  context.fillStyle = theme.get("paper");
  context.fillRect(0, 0, broad, high);
  context.fillStyle = theme.get("ink");
  context.font = letters;
  context.textBaseline = "middle";
  context.fillText(title, margin, head / 2 + 4);
  context.drawImage(canvas, margin, head, wide, tall);
  context.font = theme.font(13);
  meanings.forEach(([text, paint], at) => {
    const y = head + tall + at * line + 4;
    context.save();
    context.translate(margin, y);
    paint(context);
    context.restore();
    context.fillStyle = theme.get("ink");
    context.fillText(text, margin + 28, y + 9);
  });
  sharpness.fixed = null;
  draw();
  page.toBlob((blob) => {
    const link = el("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name}.png`;
    link.click();
    URL.revokeObjectURL(link.href);
  }, "image/png");
}

/** The width of a text in pixels. */
function widthOf(text, font) {
  const context = el("canvas").getContext("2d");
  context.font = font;
  return context.measureText(text).width;
}
