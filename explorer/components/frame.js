// What only the browser can do for the frame round a page. Nothing is drawn.

import { unpack } from "./payload.js";

export default function ({ data }) {
  oneEntryAPage();
  const { theme } = unpack(data).head;
  if (theme) wear(theme);
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
  const push = history.pushState.bind(history);
  history.pushState = (state, title, url) => {
    const next = new URL(url ?? location.href, location.href);
    const bare = next.pathname === location.pathname && !location.search && next.search;
    if (bare) history.replaceState(state, title, url);
    else push(state, title, url);
  };
}

/**
 * Light or dark, as the link asks: Streamlit reads the visitor's choice from this key when the page
 * is loaded, so a page in the other one is loaded again, once.
 */
function wear(theme) {
  const key = `stActiveTheme-${window.location.pathname}-v2`;
  const wanted = JSON.stringify(theme === "dark" ? "Dark" : "Light");
  const root = document.documentElement;
  const ground = getComputedStyle(document.querySelector("[data-testid=stApp]") ?? root).backgroundColor;
  const [r, g, b] = ground.match(/[\d.]+/g).map(Number);
  const isDark = 0.3 * r + 0.59 * g + 0.11 * b < 128;
  if (isDark === (theme === "dark")) return;
  if (window.localStorage.getItem(key) === wanted) return; // it was asked for and is not to be had
  window.localStorage.setItem(key, wanted);
  window.location.reload();
}
