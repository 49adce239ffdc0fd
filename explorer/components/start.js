import { fit, glossWidth, scratch } from "./canvas.js";
import { el, rebuild, redraws } from "./dom.js";
import { followTheme } from "./palette.js";
import { glossOf, unpack } from "./payload.js";
import { clamp, clockOf, lerp, smooth } from "./start_clock.js";
import { attentionOf, coloursOf, picturesOf, stripsOf } from "./start_data.js";
import { layoutOf } from "./start_layout.js";
import { about, controls } from "./start_bar.js";
import { paint } from "./start_paint.js";
import { present } from "./start_scene.js";
import { inWords, place, reading } from "./start_words.js";
import { headPanel, stepsPanel, wavesPanel } from "./start_panels.js";

/**
 * The whole model at work on a sentence. It plays in the browser alone; Python hears of what is
 * opened, of a mask that is switched, and of a link that is followed.
 */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const theme = followTheme(root);
  const old = root.start;
  const run = JSON.stringify([head.lanes, head.moments.map(({ said }) => said), head.mask]);
  let picked = {}; // a mask and what is open: of messages that arrive together, Streamlit keeps the last
  const send = (pick) => {
    picked = pick.mask ? { ...picked, ...pick } : { mask: picked.mask, ...pick };
    setTriggerValue("picked", picked);
  };
  const view = startView(root, { head, arrays, theme, colours: coloursOf(theme, root) }, send);
  view.run = run;
  const before = old?.now();
  old?.stop();
  root.start = view;
  return view.begin(before, old?.run === run);
}

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const isTyping = () => document.activeElement?.matches("input[type=text], textarea") ?? false;

function startView(root, view, send) {
  const { head, arrays, theme } = view;
  const { words, moments } = head;
  const clock = clockOf(moments.length);
  view.attention = attentionOf(head, arrays);
  view.pictures = picturesOf(head, arrays, theme);
  view.strips = stripsOf(head, arrays, view.colours);
  const ui = controls(view, {
    toggle: () => (playing ? pause() : play()),
    by: (change) => { pause(); go(clock.restOf(clamp(stepNow() + change, -1, moments.length - 1))); },
    scrub: (share) => { pause(); go(share * clock.end); },
    mask: (mask) => send({ mask }),
    door: (door) => send({ door: head.door === door ? "" : door }),
  });
  const canvas = el("canvas", "main");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", words.label);
  const picture = el("div", "picture");
  const stations = el("div", "stations");
  const readout = el("p", "readout hover");
  const told = el("div", "told");
  picture.append(canvas, stations);
  let [time, playing, frame, last, zoom, look, context, open] = [clock.end, false, null, 0, head.door === "heads" ? 1 : 0, null, null, null];

  const stepNow = () => clock.at(time).step;
  const moment = () => (time >= clock.end ? { read: 1, step: moments.length - 1, p: 1, whole: true } : clock.at(time));

  function draw() {
    if (!context) return;
    paint(context, view, moment(), look);
    ui.show(moment(), playing, time / clock.end);
  }
  function go(to) { time = clamp(to, 0, clock.end); draw(); }
  function tick(now) {
    if (!root.isConnected) { playing = false; return; }
    time = Math.min(clock.end, time + Math.min(now - last, 60));
    last = now;
    if (time >= clock.end) playing = false;
    draw();
    if (playing) frame = requestAnimationFrame(tick);
  }
  function play() {
    if (time >= clock.end) time = 0;
    if (still()) { go(clock.end); return; }
    playing = true;
    last = performance.now();
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(tick);
  }
  const onPaper = () => { pause(); go(clock.end); }; // the last frame has the whole picture
  function pause() { playing = false; cancelAnimationFrame(frame); draw(); }

  function measure(token) {
    scratch.font = theme.font(15, 600);
    return scratch.measureText(token).width + glossWidth(scratch, glossOf(token));
  }
  function size(width) {
    view.layout = layoutOf(head, width, zoom, measure, window.innerHeight - 270);
    context = fit(canvas, width, view.layout.height);
    place(stations, view, (at) => send({ head: at }));
    open?.fitTo(open.clientWidth - 32);
    draw();
  }
  /** Animates the size of heads. */
  function zoomTo(to) {
    const from = zoom;
    if (from === to) return;
    if (still()) { zoom = to; size(root.clientWidth); return; }
    const began = performance.now();
    const step = (now) => {
      const done = clamp((now - began) / 520);
      zoom = lerp(from, to, smooth(done));
      size(root.clientWidth);
      if (done < 1 && root.isConnected) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  /** The element under the pointer: a head or a thread. */
  function under({ offsetX, offsetY }) {
    const { layout } = view;
    for (let lane = 0; lane < layout.lanes.length; lane += 1) {
      const each = layout.lanes[lane];
      for (let block = 0; block < each.blocks.length; block += 1) for (let site = 0; site < each.blocks[block].sites.length; site += 1) {
        const index = each.blocks[block].sites[site].heads.findIndex(({ x, y, size: side }) => offsetX >= x && offsetX <= x + side && offsetY >= y && offsetY <= y + side);
        if (index >= 0) return { lane, block, site, head: { index } };
      }
      const [u, v] = layout.vertical ? [offsetY, offsetX] : [offsetX, offsetY];
      const beside = v > each.v0 - 8 && v < each.v1 + 8;
      if (beside && head.lanes[lane].waves && u > each.waves[0] && u < each.waves[1]) return { door: "waves" };
      if (beside && lane === layout.lanes.length - 1 && u > each.out[0] + 14) return { door: "steps" };
      if (u < each.label[0] - 10 || u > each.out[0] || v < each.v0 - 8 || v > each.v1 + 8) continue;
      const { count } = present({ head, layout, moment: moment() }, lane);
      const thread = each.v.slice(0, count).reduce((best, at, i) => (Math.abs(at - v) < Math.abs(each.v[best] - v) ? i : best), 0);
      if (Math.abs(each.v[thread] - v) < Math.max(each.gap * 0.6, 6)) return { lane, thread };
    }
    return null;
  }
  canvas.onpointermove = (event) => {
    const now = under(event);
    canvas.style.cursor = now?.head || now?.door ? "pointer" : "default";
    if (JSON.stringify(now) === JSON.stringify(look)) return;
    look = now;
    readout.textContent = look ? reading({ ...view, moment: moment() }, look) : words.hint;
    if (!playing) draw();
  };
  canvas.onpointerleave = () => { look = null; readout.textContent = words.hint; if (!playing) draw(); };
  canvas.onclick = (event) => {
    const now = under(event);
    if (now?.head) send({ head: [now.lane, now.block, now.site, now.head.index] });
    else if (now?.door) send({ door: now.door });
  };

  root.tabIndex = -1;
  picture.onpointerdown = ({ target }) => { if (!target.closest("button, a")) root.focus({ preventScroll: true }); };
  root.onkeydown = (event) => {
    const { tagName } = event.target;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape" && head.door) send({ door: "" });
    else if (event.key === " " && !["BUTTON", "A"].includes(tagName)) (playing ? pause() : play());
    else if (["ArrowLeft", "ArrowRight"].includes(event.key) && event.target.type !== "radio") {
      pause();
      go(clock.restOf(clamp(stepNow() + (event.key === "ArrowRight" ? 1 : -1), -1, moments.length - 1)));
    } else return;
    event.preventDefault();
  };

  const find = (at) => root.querySelector(`[data-at="${at}"]`);

  function openDoor() {
    const close = () => send({ door: "" });
    const follow = (link) => send({ link });
    if (head.door === "head" && head.opened) open = headPanel(view, close, follow, (place_) => send({ head: place_ }));
    else if (head.door === "waves") open = wavesPanel(view, close, follow);
    else if (head.door === "steps") open = stepsPanel(view, close, follow, (step) => { pause(); go(clock.restOf(step)); });
    if (!open) return;
    picture.append(open);
    picture.classList.add("behind");
  }

  view.stop = () => { playing = false; cancelAnimationFrame(frame); };
  view.now = () => ({ time, playing, zoom, door: head.door, opened: JSON.stringify(head.opened?.at.concat(head.opened.head)) });
  view.begin = (before, same) => {
    // Does not play while a sentence is typed, which would be shown without its output.
    const starts = !before && !still() && !isTyping() && !head.door;
    if (same) ({ time } = before);
    else if (starts) time = 0;
    zoom = before ? before.zoom : zoom;
    openDoor();
    readout.textContent = words.hint;
    told.append(...inWords(head, words));
    const focused = root.getRootNode().activeElement?.dataset.at;
    rebuild(root, about(head, (link) => send({ link })), ui.said, ui.bar, picture, readout, told);
    const end = redraws(root, size);
    window.addEventListener("beforeprint", onPaper);
    if (focused !== undefined) find(focused)?.focus({ preventScroll: true }); // stations are placed last
    const opened = JSON.stringify(head.opened?.at.concat(head.opened.head));
    if (open && (before?.door !== head.door || before?.opened !== opened)) {
      open.classList.add("fresh");
      open.begin?.();
      // Moves the focus to an opened panel, and back when it closes.
      if (focused !== undefined && before?.door !== head.door) { root.opener = focused; find("close")?.focus({ preventScroll: true }); }
    } else if (!open && before?.door) find(root.opener)?.focus({ preventScroll: true });
    zoomTo(head.door === "heads" ? 1 : 0);
    if ((same && before.playing) || starts) play();
    return () => { view.stop(); end(); window.removeEventListener("beforeprint", onPaper); };
  };
  return view;
}
