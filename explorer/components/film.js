import { el, rebuild, redraws } from "./dom.js";
import { filmBars, filmMaps, filmPlayer, filmStage } from "./film_parts.js";
import { readingOf } from "./film_reading.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

/**
 * A decoding as a film. All steps are in the payload, so playing, stepping and scrubbing happen
 * here; Python hears only where the film has come to rest, and which candidate was taken instead.
 * On a page of its own (`plays`) it starts by itself and begins again after its end, unless the
 * reader's system asks for no motion.
 */
export default function ({ parentElement, data, setTriggerValue, plays = false }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const likeness = JSON.stringify({ ...head, scene: null });
  const theme = followTheme(root);
  const shade = root.hasAttribute("data-dark");
  const old = root.film;
  const alike = (name) => arrays[name].every((byte, at) => byte === old.arrays[name][at]);
  if (old && old.likeness === likeness && old.shade === shade && alike("own") && alike("cross")) {
    old.send = setTriggerValue;
    old.receive(head.scene);
    return root.stop;
  }
  // The server may draw the same film again: its numbers differ from those of the first picture in a last digit.
  const tokens = JSON.stringify([head.source, head.row]);
  const before = old?.tokens === tokens && old.isAhead(head.scene) ? old.now() : {};
  old?.pause();
  const loops = plays && !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  root.film = filmView(root, head, arrays, theme, { turn: head.scene.turn ?? 0, plays: loops, ...before }, loops);
  Object.assign(root.film, { likeness, tokens, arrays, shade, send: setTriggerValue });
  return root.film.start();
}

const REST = 450; // ms without a change after which the film counts as stopped

function filmView(root, head, arrays, theme, { turn, plays, scene: chosen }, loops) {
  const { words, frames, row, source } = head;
  const last = frames.length - 1;
  const reading = readingOf(head);
  const film = { turn };
  let scene = { speed: 1, ...head.scene, ...chosen };
  let timer = null;
  let resting = null;

  const player = filmPlayer(words, head, {
    play: () => (timer ? film.pause(true) : play()),
    go: (step) => { film.pause(); show({ step }); rest(); },
    by: (change) => { film.pause(); show({ step: scene.step + change }); rest(); },
    look: (change) => { show(change); rest(); },
    pace: (value) => { show({ speed: value }); if (timer) { stop(); run(); } },
  });
  const stage = filmStage(head, theme, reading);
  const bars = filmBars(words, (place) => { film.pause(); film.send("taken", [scene.step, place]); });
  const maps = filmMaps(head, theme, reading, (step) => { film.pause(); show({ step }); rest(); });
  const why = el("div", "why");
  why.setAttribute("aria-live", "polite");

  const weights = { own: meanOf(arrays.own, head, row.tokens.length - 1), cross: source ? meanOf(arrays.cross, head, source.tokens.length) : null };

  function show(change) {
    scene = { ...scene, ...change };
    scene.step = Math.min(last, Math.max(0, scene.step));
    if (scene.layer === null) scene.head = null;
    const frame = frames[scene.step];
    const own = weights.own(scene.layer, scene.head);
    const cross = weights.cross?.(scene.layer, scene.head) ?? null;
    player.show(scene, timer !== null);
    stage.show(scene.step, own, cross);
    bars.show(frame);
    maps.show(scene.step, own, cross);
    why.textContent = frame.why;
  }

  /** Notifies Python after a while without changes; never while the film plays. */
  function rest() {
    clearTimeout(resting);
    film.turn += 1;
    resting = setTimeout(() => {
      resting = null;
      film.send("rested", { step: scene.step, layer: scene.layer, head: scene.head, turn: film.turn });
    }, REST);
  }
  function stop() { clearInterval(timer); timer = null; }
  function run() {
    timer = setInterval(() => {
      if (!root.isConnected) { stop(); return; }
      if (scene.step >= last && !loops) film.pause(true);
      else if (scene.step >= last) show({ step: 0 });
      else show({ step: scene.step + 1 });
    }, 900 / scene.speed);
  }
  function play() {
    if (last === 0) return;
    clearTimeout(resting);
    run();
    show({ step: scene.step >= last ? 0 : scene.step });
  }
  film.pause = (tell = false) => {
    if (!timer) return;
    stop();
    player.show(scene, false);
    if (tell) rest();
  };

  /** Whether the browser has a newer scene than a payload, or is playing. */
  film.isAhead = ({ turn: heard }) => timer !== null || resting !== null || (heard ?? 0) !== film.turn;
  film.now = () => ({ turn: film.turn, plays: timer !== null, scene });
  film.receive = (given) => {
    if (!film.isAhead(given)) show({ step: given.step, layer: given.layer, head: given.head });
  };

  root.onkeydown = (event) => {
    const tag = event.target.tagName;
    if (event.altKey || event.ctrlKey || event.metaKey || tag === "SELECT" || event.target.getRootNode() !== root.getRootNode()) return;
    const range = tag === "INPUT";
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -frames.length, End: frames.length };
    if (event.key === " " && (range || tag !== "BUTTON")) (timer ? film.pause(true) : play());
    else if (!range && event.key in moves) { film.pause(); show({ step: scene.step + moves[event.key] }); rest(); }
    else return;
    event.preventDefault();
  };

  film.start = () => {
    const below = el("div", "below");
    below.append(bars.node, maps.node);
    rebuild(root, player.node, stage.node, why, below);
    const end = redraws(root, (width) => {
      below.classList.toggle("wide", width >= 820);
      below.classList.toggle("wider", width >= 1000 && maps.node.children.length > 1);
      maps.fit(maps.node.firstElementChild.clientWidth);
      show({});
    });
    if (plays) play();
    const onPaper = () => { film.pause(); show({ step: last }); }; // the last step has the whole picture
    window.addEventListener("beforeprint", onPaper);
    return () => { end(); window.removeEventListener("beforeprint", onPaper); };
  };
  return film;
}

/** layer, head -> Float32Array [step, key]; null is the mean over that axis. */
function meanOf(bytes, head, nKey) {
  const codes = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const weight = (cell) => codes.getUint16(2 * cell, true) / 65535;
  const size = head.frames.length * nKey;
  const known = new Map();
  return (layer, only) => {
    const name = `${layer} ${only}`;
    if (known.has(name)) return known.get(name);
    const layers = layer === null ? Array.from({ length: head.layers }, (_, i) => i) : [layer];
    const heads = only === null ? Array.from({ length: head.heads }, (_, i) => i) : [only];
    const sum = new Float32Array(size);
    for (const l of layers) for (const h of heads) {
      const start = (l * head.heads + h) * size;
      for (let cell = 0; cell < size; cell += 1) sum[cell] += weight(start + cell);
    }
    const scale = layers.length * heads.length;
    for (let cell = 0; cell < size; cell += 1) sum[cell] /= scale;
    known.set(name, sum);
    return sum;
  };
}
