// The generated text, and the controls of the picture.

import { el } from "./dom.js";
import { fill, onFollow } from "./start_words.js";

/** What the model is; under a changed mask, what that does and a way on. */
export function about({ about: model, effect, links, words }, follow) {
  const line = el("p", "caption", effect || model);
  if (!effect || !links.masks) return line;
  const link = el("a", "", words.why_masks);
  link.href = links.masks;
  link.dataset.at = "why";
  onFollow(link, follow);
  line.append(" ", link);
  return line;
}

/** The generated text, and the playback controls. */
export function controls({ head }, act) {
  const { words, moments, masks, mask } = head;
  const said = el("p", "said");
  const bar = el("div", "bar");
  const player = el("div", "player");
  const button = (name, sign, click) => {
    const made = el("button", name, sign);
    made.type = "button";
    made.dataset.at = name;
    made.setAttribute("aria-label", words[name]);
    made.title = words[name];
    made.onclick = click;
    return made;
  };
  const main = button("play", "", act.toggle);
  const range = el("input");
  Object.assign(range, { type: "range", min: 0, max: 1, step: 0.001 });
  range.dataset.at = "scrub";
  range.setAttribute("aria-label", words.step);
  range.oninput = () => act.scrub(Number(range.value));
  const count = el("span", "count");
  player.append(button("back", "‹", () => act.by(-1)), main, button("next", "›", () => act.by(1)), range, count);
  const choose = el("div", "masks");
  choose.setAttribute("role", "radiogroup");
  choose.setAttribute("aria-label", words.masks);
  choose.append(el("span", "caption", words.masks));
  for (const [name, label] of masks) {
    const line = el("label", name === mask ? "on" : "");
    const input = el("input");
    Object.assign(input, { type: "radio", name: "start-mask", value: name, checked: name === mask });
    input.dataset.at = `mask-${name}`;
    input.onchange = () => act.mask(name);
    line.append(input, el("span", "", label));
    choose.append(line);
  }
  const doors = el("div", "doors");
  for (const [name, label] of [["heads", words.all_heads], ["waves", words.waves], ["steps", words.steps]]) {
    const door = button(`door-${name}`, label, () => act.door(name));
    door.removeAttribute("aria-label");
    door.removeAttribute("title");
    door.setAttribute("aria-pressed", String(head.door === name));
    doors.append(door);
  }
  const tools = el("div", "tools");
  tools.append(choose, doors);
  bar.append(player, tools);
  let shown = null;
  return {
    said,
    bar,
    show({ step, p, whole }, playing, share) {
      main.classList.toggle("on", playing);
      main.setAttribute("aria-label", playing ? words.pause : words.play);
      range.value = share;
      range.setAttribute("aria-valuetext", step < 0 ? words.reading : fill(words.read_step, { step: step + 1, steps: moments.length }));
      const place = `${Math.max(0, step + 1)} / ${moments.length}`;
      if (count.textContent !== place) count.textContent = place;
      const now = whole || p >= 0.97 ? step : step - 1;
      const id = `${now} ${whole}`;
      if (id === shown) return;
      shown = id;
      sentence(said, head, now, whole);
    },
  };
}

/** The text so far; at the end with the words removed and added by a changed mask. */
function sentence(node, { moments, said, prompt, diff, words }, step, whole) {
  node.replaceChildren();
  node.classList.toggle("long", said.length > 70);
  if (prompt && said.startsWith(prompt)) node.append(el("span", "prompt", prompt));
  if (whole && diff.length) {
    diff.forEach(([token, status], at) => {
      const within = token.startsWith("·");
      const shown = within ? token.slice(1) : token;
      const blank = (at || prompt) && !within && /^[a-z0-9(]/i.test(shown) ? " " : "";
      node.append(blank, status === "same" ? el("span", "", shown) : el(status === "gone" ? "del" : "ins", "", shown));
    });
    if (diff.every(([, status]) => status === "same")) node.append(el("small", "", ` ${words.same}`));
    return;
  }
  const now = step < 0 ? prompt : moments[step]?.said ?? "";
  node.append(el("span", "", (whole && !now ? said : now).slice(said.startsWith(prompt) ? prompt.length : 0)));
  if (!whole && moments.some(({ tokens }) => tokens.length)) node.append(el("i", "caret"));
}
