// The choices of the page as its address contains them. Unusable values are ignored.

const oneOf = (...values) => (text) => values.find((value) => String(value) === text);
const whole = (most) => (text) => (/^\d{1,4}$/.test(text) && Number(text) <= most ? Number(text) : undefined);
const wholes = (least, most) => (text) => {
  const numbers = text.split(".").map(whole(9999));
  return numbers.length < least || numbers.length > most || numbers.includes(undefined) ? undefined : numbers;
};

/** How each choice is read: the value, or undefined. */
export function rulesOf({ words, masks, config }, { pads, text }) {
  const sitesOf = (stack) => (stack.crosses ? [stack.role, "cross"] : [stack.role]);
  const place = wholes(4, 4);
  return {
    lang: oneOf(...Object.keys(words)),
    theme: oneOf("light", "dark"),
    text: (given) => given.slice(0, text),
    mask: oneOf(...masks),
    pads: whole(pads),
    padsHidden: oneOf(true, false),
    hidden: wholes(1, 64),
    draws: oneOf(true, false),
    temperature: (given) => (Number(given) >= 0.2 && Number(given) <= 2 ? Number(given) : undefined),
    seed: whole(9999),
    role: oneOf(...config.stacks.flatMap(sitesOf)),
    door: oneOf("head", "heads", "waves", "steps"),
    opened: (given) => {
      const [lane, block, site, head] = place(given) ?? [];
      const stack = config.stacks[lane];
      return stack && block < stack.layers && site < sitesOf(stack).length && head < config.n_heads ? [lane, block, site, head] : undefined;
    },
    cell: (given) => {
      const [layer, head, query, key] = place(given) ?? [];
      return head < config.n_heads ? [layer, head, query, key] : undefined;
    },
  };
}

/** The valid choices of an address. */
export const choicesIn = (asked, rules) => Object.fromEntries(Object.entries(rules).flatMap(([name, read]) => {
  const value = asked.has(name) ? read(asked.get(name)) : undefined;
  return value === undefined ? [] : [[name, value]];
}));

/** The query string of the choices that are not the default: "" or "?…". */
export function queryOf(choices, defaults, rules) {
  const written = (value) => (value instanceof Set || Array.isArray(value) ? [...value].join(".") : String(value));
  const asked = new URLSearchParams();
  for (const name of Object.keys(rules)) {
    const value = written(choices[name]);
    if (value !== written(defaults[name])) asked.set(name, value);
  }
  return asked.size ? `?${asked}` : "";
}
