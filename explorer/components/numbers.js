// Numbers formatted for readers.

export function percent(weight) {
  if (weight > 0 && weight < 0.0005) return "< 0.1 %";
  return (100 * weight).toFixed(weight < 0.0995 ? 1 : 0) + " %";
}

/** 0.25 or −0.25: two decimals, and a minus sign as wide as a plus. */
export const signed = (value) => value.toFixed(2).replace("-", "−");

/** Three significant digits. */
export const digits = (value) => (
  Number.isFinite(value) ? String(Number(value.toPrecision(3))) : String(value)).replace("-", "−");
