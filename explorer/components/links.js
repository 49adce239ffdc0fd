// Two rows of token chips and the lines between them.

import { css, inkOn, ramp } from "./palette.js";
import { BLOCKED } from "./payload.js";

/** Lines [strength, from x, to x] over a height; the last is on top. */
export function drawLinks(context, links, height, ink, alone) {
  for (const [strength, from, to] of links) {
    context.strokeStyle = css(ink, alone ? 0.15 + 0.85 * strength : strength);
    context.lineWidth = 0.75 + 6 * strength;
    context.beginPath();
    context.moveTo(from, 0);
    context.bezierCurveTo(from, height / 2, to, height / 2, to, height);
    context.stroke();
  }
}

/** A weight byte's colour on a chip. */
export const chipColours = (theme) => ramp(theme).map((colour) => ({ paper: css(colour), ink: inkOn(colour) }));

/** Chips in `chipColours` by their weight's byte; blocked ones hatched, undefined ones plain. */
export function tint(chips, codeOf, colours) {
  chips.forEach((node, index) => {
    const value = codeOf?.(index);
    if (node.tinted === value) return;
    node.tinted = value;
    node.classList.toggle("blocked", value === BLOCKED);
    const shaded = value !== undefined && value !== BLOCKED;
    node.style.background = shaded ? colours[value].paper : "";
    node.style.color = shaded ? colours[value].ink : "";
  });
}
