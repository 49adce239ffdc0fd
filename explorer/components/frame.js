// Parts of the page frame that need the browser, and the top bar on narrow screens.

import { el, rebuild } from "./dom.js";
import { scrollInto } from "./edges.js";
import { talk } from "./host.js";
import { followTheme } from "./palette.js";
import { unpack } from "./payload.js";

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { lang, theme, beamer, menu, current, sentence, typed, chosen, origins, words } = unpack(data).head;
  oneEntryAPage();
  if (origins && window.parent !== window) {
    talking.take = (message) => setTriggerValue("message", message);
    if (!talking.begun) talk(origins, (message) => talking.take(message), wear);
    talking.begun = true;
  }
  document.documentElement.lang = lang;
  if (theme) wear(theme);
  document.documentElement.toggleAttribute("data-hl-beamer", beamer); // for page.css
  document.documentElement.toggleAttribute("data-hl-embed", Boolean(origins));
  followTheme(root);
  const before = root.told;
  if (chosen[0] !== before?.chosen[0]) settle(current);
  root.told = { beamer, lang, sentence, typed, chosen, dark: isDark() };
  if (before && before.dark !== isDark()) setTriggerValue("theme", isDark()); // Python draws the charts
  root.send = setTriggerValue;
  const row = bar(menu, current, words, (name) => root.send("page", name));
  // What is being typed stays, and its box, unless another sentence is chosen.
  const draft = before?.sentence === sentence && !beamer ? root.querySelector("textarea")?.value : undefined;
  if (draft !== undefined && before.lang === lang) rebuild(root.firstChild, ...row.children);
  else rebuild(root, row, ...(beamer ? [] : [entry(draft ?? sentence, words, (text) => root.send("sentence", text))]));
  const differs = (now, then) => now.some((each, at) => each !== then[at]);
  if (beamer && !before?.beamer) collapse(); // the sidebar leaves too little room
  if (!before) return;
  if (differs(chosen, before.chosen) || (differs(typed, before.typed) && !isTyping())) closeSidebar();
}

/**
 * Show what is below the picture (page.css) and the chosen tab of a narrow row once the page is complete,
 * and its height has not changed for 0.3 s; at the latest after 8 s.
 */
function settle(current, began = performance.now(), changed = began, height = 0) {
  const page = document.documentElement;
  const now = performance.now();
  const tall = document.querySelector("[data-testid=stMain]").scrollHeight;
  const waits = tall !== height || document.querySelector("[data-testid=stMain] [class*=-stop]") || !isDrawn();
  if (now <= began + 8000 && (waits || now <= changed + 300)) {
    requestAnimationFrame(() => settle(current, began, waits ? now : changed, tall));
    return;
  }
  delete page.dataset.hlOpening;
  for (const tab of document.querySelectorAll(`.st-key-views a[href$="${current}"], .st-key-parts [aria-checked=true]`)) {
    const row = tab.closest(".st-key-views, .stButtonGroup > div");
    const left = tab.getBoundingClientRect().left - row.getBoundingClientRect().left;
    scrollInto(row, left + row.scrollLeft, tab.offsetWidth);
  }
}

/** Once per page; what it does with a message is the newest run's. */
const talking = { begun: false, take: null };

/** The view's name as a menu of all views, one that is empty dimmed with its reason, and a button that opens the sidebar. */
function bar(menu, current, words, go) {
  const row = el("div", "bar");
  const list = el("select", "page");
  list.dataset.at = "page";
  list.setAttribute("aria-label", words.page);
  for (const [heading, views] of menu) {
    const group = views.length > 1 ? el("optgroup") : list;
    if (group !== list) group.label = heading;
    for (const [name, title, reason] of views) {
      const view = el("option", "", reason ? `${title}: ${reason}` : title);
      view.value = name;
      view.selected = name === current;
      view.disabled = Boolean(reason) && name !== current;
      group.append(view);
    }
    if (group !== list) list.append(group);
  }
  list.onchange = () => go(list.value);
  const more = el("button", "more", words.more);
  more.type = "button";
  more.dataset.at = "more";
  more.onclick = () => document.querySelector("[data-testid=stExpandSidebarButton]")?.click();
  row.append(list, more);
  return row;
}

/** The sentence as a text field, and the Run button; Enter also runs it. */
function entry(sentence, words, run) {
  const form = el("form");
  const box = el("textarea");
  box.rows = 1;
  box.value = sentence;
  box.dataset.at = "sentence";
  box.setAttribute("aria-label", words.sentence);
  box.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  };
  const button = el("button", "run", words.run);
  button.dataset.at = "run";
  form.onsubmit = (event) => {
    event.preventDefault();
    run(box.value);
  };
  form.append(box, button);
  return form;
}

/** Whether the focus moved from a text to another field of the sidebar. */
function isTyping() {
  const focused = document.activeElement;
  return focused.matches("input, textarea, summary") && focused.closest("[data-testid=stSidebar]") !== null;
}

/** On a narrow screen the sidebar covers the page. */
function closeSidebar() {
  if (window.matchMedia("(max-width: 768px)").matches) collapse();
}

function collapse() {
  document.querySelector("[data-testid=stSidebarCollapseButton] button[aria-expanded=true]")?.click();
}

/**
 * The browser's history with one entry a page: the menu opens a page under its bare address, and the
 * app then writes its choices behind it. Both as one entry, or "back" would lead to the bare address,
 * which is written forward again at once.
 */
function oneEntryAPage() {
  const { history, location } = window;
  if (history.headlight) return;
  history.headlight = true;
  window.addEventListener("beforeprint", toPaper);
  new MutationObserver(rest).observe(document.body, { subtree: true, childList: true, attributeFilter: ["data-collapsed"] });
  window.addEventListener("keydown", printDrawn, true);
  const push = history.pushState.bind(history);
  history.pushState = (state, title, url) => {
    const next = new URL(url ?? location.href, location.href);
    const bare = next.pathname === location.pathname && !location.search && next.search;
    if (bare) history.replaceState(state, title, url);
    else push(state, title, url);
  };
}

/** Takes a folded sidebar out of the order of Tab. */
function rest() {
  const sidebar = document.querySelector("[data-testid=stSidebar]");
  sidebar?.toggleAttribute("inert", sidebar.dataset.collapsed === "true");
}

/** Whether nothing is being computed, loaded or drawn. */
function isDrawn() {
  return document.querySelector("[data-testid=stApp]").dataset.testScriptState === "notRunning" &&
    !document.querySelector("[data-testid=stMain] :is([data-testid=stSkeleton], .stPlotlyChart:not(:has(.main-svg)))");
}

/** On Ctrl + P, prints once the page is drawn, after 10 s at the latest: `beforeprint` cannot wait. */
function printDrawn(event) {
  if (event.key.toLowerCase() !== "p" || !(event.ctrlKey || event.metaKey) || isDrawn()) return;
  event.preventDefault();
  const print = (left) => (left && !isDrawn() ? setTimeout(print, 100, left - 1) : window.print());
  print(100);
}

const [LONG, SHORT] = [960, 700]; // CSS pixels between the margins, of A4 as of Letter
const LARGEST = 1.6; // so that a phone's column does not leave most of a sheet empty

/**
 * Tells page.css how wide the content is, which on paper is as wide as on the screen but scaled: as large as
 * fits on one sheet, which lies under what is wider than tall. What would shrink by a third for it takes several.
 */
function toPaper() {
  const main = document.querySelector("[data-testid=stMainBlockContainer]");
  const parts = [main.firstElementChild, ...main.querySelectorAll("[class*=st-key-wide-]")];
  const width = Math.max(...parts.map(({ scrollWidth }) => scrollWidth));
  main.style.setProperty("--hl-width", width);
  main.toggleAttribute("data-hl-columns", window.innerWidth > 640); // as Streamlit's style sheet has it
  main.toggleAttribute("data-hl-dark", isDark());
  const height = heightOnPaper(main);
  const lies = document.body.toggleAttribute("data-hl-lies", height < width);
  const [across, down] = lies ? [LONG, SHORT] : [SHORT, LONG];
  const [wide, whole] = [Math.min(LARGEST, across / width), down / height];
  main.style.setProperty("--hl-zoom", whole < 0.7 * wide ? wide : Math.min(wide, whole));
}

/** The height of the content by the rules for paper, here and in the components: they hide controls. */
function heightOnPaper(main) {
  const adopted = [...main.querySelectorAll("*")].flatMap(({ shadowRoot }) => shadowRoot?.adoptedStyleSheets ?? []);
  const rules = [...document.styleSheets, ...adopted].flatMap(({ cssRules }) => Array.from(cssRules))
    .filter(({ media }) => media?.mediaText === "print");
  main.style.setProperty("--hl-zoom", 1);
  rules.forEach(({ media }) => { media.mediaText = "all"; });
  const height = main.offsetHeight;
  rules.forEach(({ media }) => { media.mediaText = "print"; });
  return height;
}

/**
 * Light or dark, as the link asks: Streamlit reads the visitor's choice from this key when the page
 * is loaded, so a page in the other one is loaded again, once.
 */
function wear(theme) {
  const key = `stActiveTheme-${window.location.pathname}-v2`;
  const wanted = JSON.stringify(theme === "dark" ? "Dark" : "Light");
  if (isDark() === (theme === "dark")) return;
  if (window.localStorage.getItem(key) === wanted) return; // already requested without effect
  window.localStorage.setItem(key, wanted);
  window.location.reload();
}

function isDark() {
  const app = document.querySelector("[data-testid=stApp]") ?? document.documentElement;
  const [r, g, b] = getComputedStyle(app).backgroundColor.match(/[\d.]+/g).map(Number);
  return 0.3 * r + 0.59 * g + 0.11 * b < 128;
}
