// The page: a sentence, the pictures of the app, what the model may see, and the next token.

import { choicesIn, queryOf, rulesOf } from "./address.js";
import { cellView } from "./cell.js";
import { drawing, greedy, randomOf } from "./decoding.js";
import { addFont, drawnWord, patchesOf, placesOf } from "./drawing.js";
import { modelOf } from "./engine.js";
import { Unreadable, flowOf, givenTokens, readingOf } from "./flow.js";
import { bytesOf, tensorsOf } from "./loading.js";
import { maskTests, passes } from "./mask_tests.js";
import { diffOf, headsPayload, pack, startPayload, unpack } from "./pictures.js";
import { tokenizerOf } from "./tokenizer.js";
import { el, fill } from "./words.js";

const CHANGES = { trained: {}, causal: { causal: false }, alone: { window: 1 } };
const MOST_PADS = 3;
const [TESTED, CHECKED] = [6, 4]; // tokens of the mask tests, of the source and of the target
const [MOST_WORD, MOST_TEXT] = [24, 600]; // characters of a word to draw, of a sentence
const SOON = 400; // ms until a change is in the address; browsers allow a hundred changes in half a minute

/** Starts the page: `views` are the app's, `live` is what model.js holds. */
export default function livePage(views, live) {
  const asked = new URLSearchParams(window.location.search);
  const sizes = live.config.picture;
  const longest = sizes ? MOST_WORD : MOST_TEXT;
  const defaults = {
    lang: navigator.language.startsWith("zh") ? "zh" : "en", theme: null, text: live.sentence, mask: "trained", pads: 0, padsHidden: true,
    hidden: [], draws: false, temperature: 0.8, seed: 1, role: live.config.stacks.at(-1).crosses ? "cross" : live.config.stacks.at(-1).role, door: "", opened: null, cell: null,
  };
  const rules = rulesOf(live, { pads: MOST_PADS, text: longest });
  const state = { ...defaults, ...choicesIn(asked, rules), picture: null, isDrawn: false };
  state.hidden = new Set(state.hidden);
  const page = { model: null, tokenizer: tokenizerOf(live.tokenizer), flow: null, plain: null, tests: [], took: 0 };
  const words = () => live.words[state.lang];
  const isEmbedded = asked.has("embed");
  const only = asked.get("view") ?? "model"; // in a frame
  const own = window.location.protocol === "file:" ? "*" : window.location.origin; // only files can embed a file
  /** Tells the page that embeds this one; docs/embedding.md lists the messages. Without a list of origins, other sites learn only the height. */
  const tell = (message) => {
    if (window.parent === window) return;
    const host = window.location.ancestorOrigins?.[0]; // not in every browser
    const isPublic = "ready" in message || "height" in message;
    const named = live.origins.length ? live.origins : [isPublic ? "*" : own];
    const told = named.filter((origin) => !host || origin === "*" || origin === host);
    for (const origin of told) window.parent.postMessage({ headlight: 1, ...message }, origin);
  };
  const nodes = {};
  const first = { text: live.sentence, ...unpack(bytesOf(live.first)) };

  /** Titles and words of the current language for the picture of the whole model. */
  function worded(head) {
    const { start, kinds, block, streams, masks } = words();
    const alone = head.lanes.length === 1;
    return {
      ...head,
      lanes: head.lanes.map((lane) => ({ ...lane, title: streams[alone ? "text" : lane.stream],
        blocks: lane.blocks.map(({ sites }, at) => ({ title: fill(block, { number: at + 1 }),
          sites: sites.map((site) => ({ ...site, title: kinds[site.role] })) })) })),
      masks: live.masks.map((name) => [name, masks[name]]),
      words: start,
    };
  }

  const isChanged = () => state.mask !== "trained" || state.pads > 0 || state.hidden.size > 0;

  /** What the model reads: the text, or the patches of its picture. */
  function given() {
    if (!sizes) return state.text;
    if (!state.text.trim() && !state.picture) throw new Unreadable("empty");
    const isStored = Object.hasOwn(live.pictures, state.text);
    state.picture ??= isStored ? bytesOf(live.pictures[state.text]) : drawnWord(state.text, sizes);
    return patchesOf(state.picture, sizes);
  }

  /** The picture that the model reads: a click hides a patch, or a pen draws. */
  function drawPicture() {
    const [height, width, high, wide] = sizes;
    const [rows, columns] = [height / high, width / wide];
    const order = Array.from({ length: rows * columns }, (_, at) => (at % rows) * columns + Math.floor(at / rows)); // column by column
    const head = { rows, columns, high, wide, tokens: placesOf(sizes), order, hidden: [...state.hidden], words: words().picture };
    const levels = { bytes: Uint8Array.from({ length: 3 * height * width }, (_, at) => 255 - state.picture[Math.floor(at / 3)]), shape: [height, width, 3] };
    const changed = (what, value) => {
      const drawn = what === "drawn" ? atob(value) : "";
      if (what === "hidden") state.hidden = new Set(value.patches);
      else Object.assign(state, { isDrawn: true, picture: Uint8Array.from({ length: height * width }, (_, at) => 255 - drawn.charCodeAt(3 * at)) });
      run();
    };
    views.picture({ parentElement: nodes.picture, data: pack(head, { levels }), setTriggerValue: changed });
  }

  /** Takes a sentence, or a word to be drawn. */
  function take(text) { Object.assign(state, { text, picture: null, isDrawn: false, cell: null }); run(); }

  /** The link to this page with its choices, now and, after a moment, in its address. */
  function keepAddress() {
    if (isEmbedded) return;
    const query = queryOf(state, defaults, rules);
    const { origin, protocol, pathname } = window.location;
    const whole = `${protocol === "file:" ? "file://" : origin}${pathname}`;
    nodes.link.textContent = whole + query;
    nodes.drawn.hidden = !state.isDrawn;
    const embed = whole.replace(/[^/]*$/, `index.html?embed=1${query.replace("?", "&")}`).replaceAll("&", "&amp;");
    nodes.line.textContent = `<iframe src="${embed}" title="Headlight" style="width: 100%; height: 32rem; border: 0"></iframe>\n<script src="${whole.replace(/[^/]*$/, "frame.js")}"></script>`;
    clearTimeout(nodes.addressed);
    nodes.addressed = setTimeout(() => window.history.replaceState(null, "", pathname + query), SOON);
  }

  /** Runs the model on the sentence; the sentence that worked last stays if this one cannot be read. */
  function run() {
    if (!page.model) return;
    const began = performance.now();
    try {
      const choose = () => (state.draws ? drawing(state.temperature, randomOf(state.seed)) : greedy);
      const read = given();
      const flow = (changes) => flowOf(page.model, page.tokenizer, read, { ...changes, choose: choose() });
      const known = JSON.stringify([read, state.draws, state.temperature, state.seed]);
      if (page.plain?.known !== known) {
        const tokens = givenTokens(page.model, page.tokenizer, read).length;
        state.hidden = new Set([...state.hidden].filter((at) => at < tokens));
        page.plain = { known, flow: flow({}) };
      }
      page.flow = isChanged() ? flow({ ...CHANGES[state.mask], pads: state.pads, padsHidden: state.padsHidden, hidden: [...state.hidden] }) : page.plain.flow;
      nodes.problem.textContent = "";
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      nodes.problem.textContent = fill(words().live[error.key], error.values);
      nodes.unknown.textContent = "";
      keepAddress();
      return;
    }
    page.took = performance.now() - began;
    tell({ sentence: state.text, output: page.flow.said });
    draw();
  }

  function draw() {
    drawStart();
    if (!page.flow) return;
    if (sizes) drawPicture();
    if (nodes.heads.isConnected) drawHeads();
    if (nodes.see.isConnected) drawControls();
    const { live: said } = words();
    nodes.status.textContent = fill(said.ready, { count: live.count, ms: Math.round(page.took) });
    sayUnknown();
  }

  /** How a sentence is read other than as typed, as the app's explorer/exhibits/saying.py, and whether the translation is cut off. */
  function sayUnknown() {
    const { cleaned, dropped, folds } = sizes ? { dropped: [] } : readingOf(page.tokenizer, state.text);
    const lacked = sizes ? [] : page.tokenizer.unknown(cleaned);
    const { pair, marks: { unknown } } = page.tokenizer;
    const codes = dropped.slice(0, 20).map((each) => `U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
    nodes.unknown.textContent = [
      codes.length ? fill(words().invisible, { characters: codes.join(" ") }) : "",
      folds ? words().folded : "",
      pair && cleaned?.includes(pair) ? fill(words().live.single, { pair }) : "",
      lacked.length ? fill(words()[unknown === null ? "dropped" : "unknown"], {
        token: unknown === null ? "" : page.tokenizer.piece(unknown), characters: lacked.slice(0, 20).join(" ") }) : "",
      page.flow.isCut ? words().unfinished : "",
    ].filter(Boolean).join(" · ");
  }

  function drawStart() {
    const { door, opened, mask } = state;
    const diff = page.flow && isChanged() ? diffOf(page.plain.flow.words, page.flow.words) : [];
    const { head, matrices } = page.flow ? startPayload(page.flow, { mask, diff, door, opened })
      : { head: { ...first.head, mask, door: door === "head" ? "" : door }, matrices: first.matrices };
    head.links = isEmbedded || !page.flow ? {} : { head: "#cell", heads: "#heads", masks: "#masks" };
    const data = pack(worded(head), matrices);
    keepAddress();
    views.start({ parentElement: nodes.start, data, setTriggerValue: (_, picked) => act(picked) });
  }

  function drawHeads() {
    const { heads, streams, sites, live: said } = words();
    const alone = page.flow.lanes.length === 1;
    const stream = (name) => streams[alone ? "text" : name];
    const roles = [...new Set(page.flow.lanes.flatMap(({ blocks }) => blocks[0].map(({ role }) => role)))];
    nodes.roles.replaceChildren(...(roles.length < 2 ? [] : [choice("role", said.kind, roles.map((role) => [role, sites[role]]), state.role, (role) => { Object.assign(state, { role, cell: null }); drawHeads(); })]));
    const lane = page.flow.lanes.find(({ blocks }) => blocks[0].some((site) => site.role === state.role));
    const { keys } = lane.blocks[0].find((site) => site.role === state.role);
    const titled = (what, name) => fill(streams[what], { stream: stream(name) });
    const data = headsPayload(page.flow, state.role, { words: heads, queryTitle: titled("query", lane.stream), keyTitle: titled("key", keys) });
    const opened = (what, value) => { if (what === "down") openCell(value); };
    views.heads_view({ parentElement: nodes.heads, data, setTriggerValue: opened, plays: true });
    drawCell();
  }

  /** Shows a cell, [layer, head, query, key], and scrolls to it. */
  function openCell(cell) {
    state.cell = cell;
    drawCell();
    nodes.cell.scrollIntoView({ block: "nearest" });
  }

  /** The calculation of a cell of the heads shown, step by step. */
  function drawCell() {
    keepAddress();
    const lane = page.flow.lanes.find(({ blocks }) => blocks[0].some((site) => site.role === state.role));
    const site = lane.blocks[state.cell?.[0]]?.find(({ role }) => role === state.role);
    const { tokens: keys, stream: keyStream } = page.flow.lanes.find(({ stream }) => stream === lane.blocks[0].find(({ role }) => role === state.role).keys);
    const { cell: told, start } = words();
    const view = site && cellView(live.config, site, state.cell, {
      queries: lane.tokens, keys, streams: [lane.stream, keyStream], words: { ...told, close: start.close }, divisor: live.divisor,
      open: (cell) => { state.cell = cell; drawCell(); },
    });
    const focused = nodes.cell.contains(document.activeElement) ? document.activeElement.dataset.at : undefined;
    nodes.cell.hidden = !view;
    nodes.cell.replaceChildren(...(view ?? []));
    if (focused !== undefined) nodes.cell.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
  }

  /** A row of radio buttons. */
  function choice(name, label, options, chosen, set) {
    const group = el("div", "choice", "", { role: "radiogroup", "aria-label": label });
    group.append(el("span", "caption", label));
    for (const [value, text] of options) {
      const line = el("label");
      const input = el("input", "", "", { type: "radio", name });
      input.checked = value === chosen;
      input.dataset.at = name + value;
      input.addEventListener("change", () => set(value));
      line.append(input, el("span", "", text));
      group.append(line);
    }
    return group;
  }

  function drawControls() {
    const { live: said } = words();
    const focused = document.activeElement?.dataset.at;
    const chips = sizes ? "" : el("div", "chips", "", { role: "group", "aria-label": said.hide });
    if (!sizes) page.flow.given.forEach((token, at) => {
      const isHidden = state.hidden.has(at);
      const stream = page.flow.lanes.length > 1 ? "src" : "tgt";
      const chip = el("button", `chip ${stream}${isHidden ? " blocked" : ""}`, token, { type: "button", "aria-pressed": String(isHidden) });
      chip.dataset.at = `token${at}`;
      chip.addEventListener("click", () => { if (!state.hidden.delete(at)) state.hidden.add(at); run(); });
      chips.append(chip);
    });
    const counts = Array.from({ length: MOST_PADS + 1 }, (_, count) => [count, String(count)]);
    const pads = live.config.marks.pad === null || sizes ? [] : [choice("pads", said.pads, counts, state.pads, (count) => { state.pads = count; run(); })];
    if (state.pads) pads.push(tick("padsHidden", said.pads_masked));
    const next = choice("draws", said.next, [[false, said.greedy], [true, said.draw]], state.draws, (draws) => { state.draws = draws; run(); });
    const rows = sizes ? [next] : [el("p", "caption", said.hide), chips, ...pads, next];
    if (state.draws) {
      const label = el("label", "slider");
      const slider = el("input", "", "", { type: "range", min: "0.2", max: "2", step: "0.1", value: String(state.temperature) });
      slider.dataset.at = "temperature";
      slider.addEventListener("change", () => { state.temperature = Number(slider.value); run(); });
      label.append(el("span", "caption", `${said.temperature} ${state.temperature}`), slider);
      const again = el("button", "again", said.again, { type: "button" });
      again.dataset.at = "again";
      again.addEventListener("click", () => { state.seed += 1; run(); });
      rows.push(label, again);
    }
    nodes.see.replaceChildren(...rows);
    if (focused !== undefined) nodes.see.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
  }

  function tick(name, label) {
    const line = el("label", "tick");
    const input = el("input", "", "", { type: "checkbox" });
    input.checked = state[name];
    input.dataset.at = name;
    input.addEventListener("change", () => { state[name] = input.checked; run(); });
    line.append(input, el("span", "", label));
    return line;
  }

  /** What was clicked in the picture. */
  function act({ mask, door, head, link }) {
    if (link === "#cell") {
      const [lane, block, at, index] = state.opened;
      const { role, seen: { n, nKeys, pattern } } = page.flow.lanes[lane].blocks[block][at];
      const row = pattern.subarray((index * n + n - 1) * nKeys, (index * n + n) * nKeys);
      state.role = role;
      state.cell = [block, index, n - 1, row.indexOf(Math.max(...row))];
      drawHeads();
    }
    if (link) { document.querySelector(link).scrollIntoView({ block: "start" }); return; }
    if (mask !== undefined) { state.mask = mask; tell({ chosen: { mask } }); run(); return; }
    if (head) {
      Object.assign(state, { door: "head", opened: head });
      const [lane, block, site, at] = head;
      tell({ chosen: { site: page.flow?.lanes[lane].blocks[block][site].role ?? null, layer: block + 1, head: at + 1 } });
    } else if (door !== undefined) state.door = door;
    drawStart();
  }

  /** Takes the choices that the embedding page sends: a mask, or a head to be opened. */
  function takeChoice(chosen) {
    const { site, layer, head, mask } = chosen;
    if (!page.flow) { page.wanted = chosen; return; } // until the weights have arrived
    if (live.masks.includes(mask)) state.mask = mask;
    const blocks = page.flow.lanes.map((lane) => lane.blocks[layer - 1] ?? []);
    const lane = blocks.findIndex((sites) => sites.some(({ role }) => role === site));
    const at = lane < 0 ? -1 : blocks[lane].findIndex(({ role }) => role === site);
    if (at >= 0 && Number.isInteger(head) && head >= 1 && head <= live.config.n_heads) Object.assign(state, { door: "head", opened: [lane, layer - 1, at, head - 1], role: site });
    run();
  }

  /** Runs the mask tests one after the other, between which the page answers. */
  function test() {
    const { config } = page.model;
    const tokens = givenTokens(page.model, page.tokenizer, sizes ? patchesOf(bytesOf(live.pictures[live.sentence]), sizes) : live.sentence);
    const translates = page.model.stacks.length > 1;
    const checked = sizes ? page.flow.tokens.slice(0, CHECKED) : tokens.slice(0, CHECKED);
    const other = (token) => (Array.isArray(token) ? token.map((grey) => 255 - grey) : (live.tokenizer.pieces.length + token - 1) % live.tokenizer.pieces.length);
    const tgt = translates ? [...config.framed.tgt[0], ...checked] : tokens.slice(0, TESTED);
    const left = maskTests(page.model, { src: translates ? tokens.slice(0, TESTED) : null, tgt }, other);
    page.testCount = left.length;
    const next = () => {
      const [name, deviates] = left.shift();
      page.tests.push([name, deviates()]);
      drawTests();
      if (left.length) setTimeout(next, 30);
    };
    setTimeout(next, 600);
  }

  function drawTests() {
    const { live: said, tests } = words();
    const passed = page.tests.filter(([, deviation]) => passes(deviation)).length;
    const values = { passed, done: page.tests.length, count: page.testCount };
    nodes.tests.querySelector("summary").textContent = page.tests.length && values.done === values.count ? fill(said.tests, values)
      : page.tests.length ? fill(said.tests_running, values) : said.tests_wait;
    nodes.tests.querySelector("ul").replaceChildren(...page.tests.map(([name, deviation]) => (
      el("li", passes(deviation) ? "kept" : "broken", `${passes(deviation) ? "✓" : "✗"} ${tests[name]} (${deviation.toExponential(1)})`))));
  }

  /** Every word of the page itself, in the current language. */
  function build() {
    const { live: said, name, sites } = words();
    document.documentElement.lang = state.lang === "zh" ? "zh-CN" : "en";
    document.documentElement.dataset.theme = state.theme ?? "";
    document.title = `Headlight: ${name}`;
    const top = el("header");
    top.append(el("h1", "", name), nodes.status, button(live.words[state.lang === "en" ? "zh" : "en"].itself, () => {
      state.lang = state.lang === "en" ? "zh" : "en"; build();
    }), button(said.theme, () => {
      const dark = getComputedStyle(document.body).colorScheme === "dark";
      state.theme = dark ? "light" : "dark";
      document.documentElement.dataset.theme = state.theme;
      draw();
    }));
    nodes.input.setAttribute("aria-label", sizes ? said.word : said.sentence);
    const examples = el("div", "examples", "", { role: "group", "aria-label": said.examples });
    examples.append(...live.examples.map((sentence) => button(sentence, () => { nodes.input.value = sentence; take(sentence); })));
    nodes.tests.replaceChildren(el("summary"), el("ul"));
    const section = (id, title, ...inside) => { const node = el("section", "", "", { id }); node.append(el("h2", "", title), ...inside); return node; };
    const about = el("p", "note", said.about);
    nodes.drawn.textContent = said.share_drawn;
    nodes.share.replaceChildren(el("summary", "", said.share), el("p", "note", said.share_link), nodes.link, nodes.drawn, el("p", "note", said.share_note), nodes.line);
    const lead = el("p", "note", words().lead);
    const whole = document.getElementById("live");
    const alone = { model: [nodes.pictureBox, nodes.startBox], start: [nodes.input, examples, nodes.unknown, nodes.pictureBox, nodes.startBox, lead], heads: [nodes.roles, nodes.headsBox], masks: [nodes.see, nodes.pictureBox, nodes.startBox], tests: [nodes.tests] };
    nodes.tests.open = isEmbedded || nodes.tests.open;
    if (isEmbedded) whole.replaceChildren(nodes.problem, ...(Object.hasOwn(alone, only) ? alone[only] : alone.model));
    else whole.replaceChildren(top, nodes.input, examples, nodes.problem, nodes.unknown, nodes.pictureBox, nodes.startBox, lead,
      section("masks", said.see, nodes.see), section("heads", sites.all, nodes.roles, nodes.headsBox), nodes.cell, nodes.tests, nodes.share, about);
    drawTests();
    draw();
    tellFailure();
  }

  function button(text, click) {
    const made = el("button", "", text, { type: "button" });
    made.addEventListener("click", click);
    return made;
  }

  /** Inserts the scripts with the weights, which call `headlightPart`, and begins once all are there. */
  function load() {
    const parts = [];
    let arrived = 0;
    const told = () => {
      const { live: said } = words();
      nodes.status.textContent = fill(said.loading, { done: Math.round(100 * arrived / live.parts) });
    };
    const failed = (key, values = {}) => { page.failed = { key, values }; tellFailure(); };
    if (!window.DecompressionStream) { failed("old_browser"); return; }
    window.headlightPart = (index, text) => {
      parts[index] = bytesOf(text);
      arrived += 1;
      told();
      if (arrived === live.parts) tensorsOf(parts, live.tensors, live.tied).then(begin);
    };
    told();
    for (let index = 0; index < live.parts; index += 1) {
      const file = `weights-${index}.js`;
      const script = el("script", "", "", { src: file, charset: "utf-8" });
      script.addEventListener("error", () => failed("no_weights", { file }));
      document.body.append(script);
    }
  }

  function tellFailure() {
    if (!page.failed) return;
    nodes.status.textContent = "";
    nodes.problem.textContent = fill(words().live[page.failed.key], page.failed.values);
  }

  async function begin(tensors) {
    const fonts = Object.entries(live.fonts ?? {});
    await Promise.all(fonts.map(([name, bytes]) => addFont(name, bytesOf(bytes))));
    page.model = modelOf(live.config, tensors);
    window.headlight = { model: page.model, tokenizer: page.tokenizer, flowOf, maskTests };
    run();
    if (page.wanted) takeChoice(page.wanted);
    test();
  }

  for (const name of ["status", "problem", "see", "roles"]) nodes[name] = el("div", name);
  for (const name of ["unknown", "drawn"]) nodes[name] = el("p", "note");
  for (const name of ["link", "line"]) nodes[name] = el("code", name);
  nodes.cell = el("section", "one-cell", "", { id: "cell" });
  nodes.share = el("details", "share");
  for (const name of ["start", "heads", "picture"]) {
    nodes[`${name}Box`] = el("div", name === "heads" ? "in-heads_view" : `in-${name}`);
    nodes[`${name}Box`].append(el("div", "hl"));
    nodes[name] = nodes[`${name}Box`];
  }
  nodes.status.setAttribute("role", "status");
  nodes.problem.setAttribute("role", "alert");
  nodes.tests = el("details", "tests");
  nodes.input = el("input", "sentence", "", { type: "text", maxlength: String(longest), spellcheck: "false", autocomplete: "off" });
  nodes.input.value = state.text;
  nodes.input.addEventListener("input", () => {
    clearTimeout(nodes.waiting);
    nodes.waiting = setTimeout(() => take(nodes.input.value), 150);
  });
  if (isEmbedded) {
    document.documentElement.classList.add("embedded");
    new ResizeObserver(([{ target }]) => tell({ height: Math.ceil(target.getBoundingClientRect().height) })).observe(document.documentElement);
  }
  window.addEventListener("message", ({ source, origin, data }) => {
    if (source !== window.parent || source === window || data?.headlight !== 1) return;
    if (live.origins.length && !live.origins.includes(origin)) return;
    const { lang, theme } = state;
    if (Object.hasOwn(live.words, data.lang)) state.lang = data.lang;
    if (["light", "dark"].includes(data.theme)) state.theme = data.theme;
    if (state.lang !== lang || state.theme !== theme) build();
    if (typeof data.sentence === "string") take(nodes.input.value = data.sentence.slice(0, nodes.input.maxLength));
    if (typeof data.chosen === "object" && data.chosen) takeChoice(data.chosen);
  });
  build();
  tell({ ready: true });
  load();
}
