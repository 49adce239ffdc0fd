// A picture to keep: what a canvas shows, on a plain background and with a title, as a PNG made in the browser.

import { clipped, fit, sharpness } from "./canvas.js";
import { el } from "./dom.js";

/** Draws sharply by `draw`, then hands `canvas` with `title` above it to the visitor as a file. */
export function keepPicture(canvas, draw, title, theme, name) {
  sharpness.fixed = 3;
  draw();
  const [margin, head] = [16, 30];
  const page = el("canvas");
  const [wide, tall] = [canvas.width / 3, canvas.height / 3];
  const context = fit(page, wide + 2 * margin, tall + head + margin);
  context.fillStyle = theme.get("paper");
  context.fillRect(0, 0, wide + 2 * margin, tall + head + margin);
  context.fillStyle = theme.get("ink");
  context.font = theme.font(14, 600);
  context.textBaseline = "middle";
  context.fillText(clipped(context, title, wide), margin, head / 2 + 4);
  context.drawImage(canvas, margin, head, wide, tall);
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
