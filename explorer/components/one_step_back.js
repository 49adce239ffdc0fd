// The browser's history with one entry a page: the menu opens a page under its bare address, and
// the app then writes its choices behind it. Both as one entry, or "back" would lead to the bare
// address, which is written forward again at once.

export default function () {
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
