// The first picture of a page, before the app is there: front.py sends the picture's payload or its address
// with the page. The app's own view then draws into the same element (mount.py), which moves to its place once
// the page is complete (frame.js). What is clicked or typed before that is done then.

/** The most milliseconds that the app waits for a picture that is requested. */
const MOST_WAITED = 300;

/** Draws the picture that the page was sent with, then loads the app, unless the server is full. */
async function begin() {
  const place = document.getElementById("hl-first");
  const [box, host] = [place.querySelector("input"), place.querySelector("div")];
  wear(place);
  const shadow = host.attachShadow({ mode: "open" });
  const pending = new Map();
  let [send, owner, isThere] = [(name, value) => { pending.set(name, value); place.classList.add("pending"); }, null, false];
  const first = (window.headlightFirst = { view: place.dataset.view });
  /** Where the app's view draws until the page is complete; null for its own place, if nothing is drawn here. */
  first.take = (view) => {
    const parent = view.parentElement;
    if (key && !(parent.host ?? parent).closest(`.st-key-${key}`)) return null; // another one on the page
    isThere = true;
    if (!shadow.querySelector(".hl")) return null;
    owner = parent;
    send = view.setTriggerValue;
    place.classList.remove("pending");
    setTimeout(() => { for (const [name, value] of pending) send(name, value); pending.clear(); });
    return shadow;
  };
  /** Whether the picture shows this payload already. */
  first.shows = (data) => {
    const before = drawn;
    drawn = data;
    return data.length === before.length && data.every((byte, at) => byte === before[at]);
  };
  let [sentence, key, drawn, composing] = [box?.value, "", null, false];
  for (const at of ["start", "end"]) box?.addEventListener(`composition${at}`, () => { composing = at === "start"; });
  onComplete(async () => {
    await until(() => !composing && !place.matches(":active") && (isThere || !isComing(key))); // a letter, a press, the app's picture
    first.take = () => null;
    const root = shadow.querySelector(".hl");
    const focused = shadow.activeElement;
    const unfolded = shadow.querySelectorAll("details[open]");
    if (owner) {
      const scrolled = [...root.querySelectorAll("*")].filter((node) => node.scrollLeft || node.scrollTop)
        .map((node) => [node, { left: node.scrollLeft, top: node.scrollTop }]);
      owner.adoptedStyleSheets = shadow.adoptedStyleSheets;
      owner.querySelector(".hl").replaceWith(root);
      for (const [node, to] of scrolled) node.scrollTo(to);
      document.querySelector("[data-testid=stMain]").scrollTop += place.scrollTop;
    }
    if (box) handOver(box, sentence);
    place.remove();
    for (const menu of unfolded) menu.open = true; // the move takes its focus, which closes it
    focused?.focus({ preventScroll: true });
  });

  const drawing = draw(place, shadow, (name, value) => send(name, value), () => isThere, (sent) => {
    if (box && box.value === sentence) box.value = sent.text;
    ({ text: sentence, key } = sent);
    drawn = sent.data;
    host.before(...above(sent));
  });
  const app = document.getElementById("hl-app");
  if (app) {
    const late = place.dataset.first ? [] : [new Promise((resolve) => { setTimeout(resolve, MOST_WAITED); })];
    await Promise.race([drawing.catch(() => {}), ...late]);
    document.head.append(app.content);
  }
  await drawing;
}
begin();

/** Draws the picture of a link, or says why it has none; nothing if the app `isThere` sooner. */
async function draw(place, shadow, send, isThere, read) {
  const [first, { default: view, styles }] = await Promise.all([
    place.dataset.first ? JSON.parse(place.dataset.first) : asked(place.dataset.src), import(place.dataset.script),
  ]);
  if (isThere()) return;
  const { payload, problem } = first;
  const data = payload && Uint8Array.from(atob(payload), (letter) => letter.charCodeAt(0));
  if (payload) read({ ...first, data });
  if (problem) shadow.append(Object.assign(document.createElement("p"), { role: "alert", textContent: problem }));
  if (!payload) return;
  shadow.adoptedStyleSheets = [styles];
  shadow.append(Object.assign(document.createElement("div"), { className: "hl" }));
  view({ parentElement: shadow, data, setTriggerValue: send });
  await painted();
  document.documentElement.style.setProperty("--hl-first", `${shadow.host.offsetHeight}px`); // page.css
}

/** The lines above a picture: the text with its output, the changes, and what the picture shows. */
function above({ text, output, note, long, changes, undo, reading }) {
  const line = (name, ...parts) => {
    const node = document.createElement("p");
    node.className = name;
    node.append(...parts);
    return node;
  };
  const part = (kind, words) => Object.assign(document.createElement(kind), { textContent: words });
  const lines = [];
  if (output !== undefined) {
    const both = part("span", "");
    both.append(part("i", text), ...(output ? [" → ", part("b", output)] : []));
    lines.push(line(long ? "sentence long" : "sentence", both, ...(note ? [part("small", note)] : [])));
  }
  if (changes) {
    const words = part("span", "");
    words.append(...changes.map((piece) => part(...piece)));
    lines.push(line("changes", words, part("small", undo)));
  }
  if (reading) lines.push(line("reading", reading));
  return lines;
}

/** The picture of a link, {} if it has none or the server is too busy: then the app draws it. */
async function asked(address) {
  const answer = await fetch(address);
  return answer.status === 200 ? answer.json() : {};
}

/** Once the browser has shown what is drawn now, which the app's scripts would delay; at once in a hidden tab. */
async function painted() {
  if (!document.hidden) await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))); });
}

/** Resolves in the first frame in which `isSo`, or now. */
function until(isSo) {
  return new Promise((resolve) => {
    const look = () => (isSo() ? resolve() : requestAnimationFrame(look));
    look();
  });
}

/** Whether the app may still draw its picture: it is running, or has an element with the picture's key. */
function isComing(key) {
  return document.querySelector(`[data-testid=stApp]:not([data-test-script-state=notRunning]), .st-key-${key}`) !== null;
}

/** Calls `then` when the app has drawn the whole page: frame.js takes this attribute away. */
function onComplete(then) {
  new MutationObserver((_, observer) => {
    if ("hlOpening" in document.documentElement.dataset) return;
    observer.disconnect();
    then();
  }).observe(document.documentElement, { attributeFilter: ["data-hl-opening"] });
}

/** The colours that the app will have: those that were chosen in it before, else the system's. */
function wear(place) {
  const chosen = window.localStorage.getItem(`stActiveTheme-${window.location.pathname}-v2`) ?? "";
  const dark = /dark/i.test(chosen) || (!/light/i.test(chosen) && window.matchMedia("(prefers-color-scheme: dark)").matches);
  place.classList.toggle("dark", dark);
}

/** Gives the app's own text box what was typed instead of `sentence`, as if it had been typed there, and the focus. */
function handOver(box, sentence) {
  const own = document.querySelector(".st-key-start-text input");
  if (!own) return;
  const focused = document.activeElement === box;
  const { value, selectionStart, selectionEnd } = box;
  if (value !== sentence) {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(own, value);
    own.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (!focused) return;
  own.focus({ preventScroll: true });
  own.setSelectionRange(selectionStart, selectionEnd);
}
