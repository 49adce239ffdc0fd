// The colours of theme.py for the page's theme.

import { scratch } from "./canvas.js";
import { weightOf } from "./payload.js";

const parsed = new Map();

/** Any CSS colour as [r, g, b]. */
export function rgb(colour) {
  if (!parsed.has(colour)) parsed.set(colour, painted(colour));
  return parsed.get(colour);
}

function painted(colour) {
  scratch.canvas.width = scratch.canvas.height = 1;
  scratch.fillStyle = colour.trim();
  scratch.fillRect(0, 0, 1, 1);
  return scratch.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

/** Selects the light or dark palette by the background colour, which is all Streamlit gives. */
export function followTheme(root) {
  const [r, g, b] = rgb(getComputedStyle(root).getPropertyValue("--st-background-color") || "#fff");
  root.toggleAttribute("data-dark", 0.3 * r + 0.59 * g + 0.11 * b < 128);
  const style = getComputedStyle(root);
  const known = {}; // cache: reading the style again forces a layout
  const family = style.fontFamily;
  const get = (name) => (known[name] ??= style.getPropertyValue("--hl-" + name).trim());
  const scale = Number(style.getPropertyValue("--hl-scale")) || 1; // above 1 in classroom mode
  return {
    scale,
    font: (size, weight = "") => `${weight} ${size * scale}px ${family}`.trim(),
    get,
    stream: (stream) => get(stream === "src" ? "source" : stream === "tgt" ? "target" : "muted"),
  };
}

/** 255 colours of a palette scale; attention starts with the palest. */
export function shades(theme, scale = "attention") {
  const stops = [0, 1, 2, 3, 4].map((index) => rgb(theme.get(`${scale}-${index}`)));
  return Array.from({ length: 255 }, (_, level) => {
    const at = level / 254 * 4;
    const low = Math.min(Math.floor(at), 3);
    return [0, 1, 2].map((c) => Math.round(stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (at - low)));
  });
}

/** 255 colours, one per weight byte; darkest at `top`. */
export function ramp(theme, top = 1) {
  const colours = shades(theme);
  return colours.map((_, code) => colours[Math.round(Math.min(weightOf(code) / top, 1) * 254)]);
}

export const css = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;

/** Black or white, whichever stands out more on a colour: always 4.5 to 1 or better. */
export function inkOn(colour) {
  const [r, g, b] = [...colour].map((part) => (
    part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
