// Elements, texts with their values, and numbers for readers: explorer/text.py, explorer/numbers.py.

/** An element with a class, text and attributes. */
export function el(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** A text with its placeholders filled; `{count:key|keys}` is the first word for 1. */
export const fill = (text, values) => text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (_, name, one, many) => (
  one === undefined ? values[name] : Number(values[name]) === 1 ? one : many));

/** 0.25 or −0.25. */
export const fixed = (value, digits = 2) => {
  const shown = value.toFixed(digits).replace("-", "−");
  return /[1-9]/.test(shown) ? shown : shown.replace("−", "");
};
export const signed = (value) => (value < 0 ? "" : "+") + fixed(value);
export const percent = (weight) => `${(100 * weight).toFixed(weight >= 0.095 ? 0 : 1)} %`;
