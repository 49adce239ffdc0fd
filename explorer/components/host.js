// Messages between the app in a frame and the page around it, as docs/embedding.md lists them.

/**
 * Exchanges messages with a page of one of the `origins`, where * matches subdomains, or of this
 * server. `take(message)` gets what that page asks for, `wear(theme)` the theme.
 */
export function talk(origins, take, wear) {
  const { location, parent, history } = window;
  const escaped = (text) => text.replace(/[.]/g, "\\.").replace("*", "[a-z0-9.-]+");
  const isAllowed = (origin) => origin === location.origin || origins.some((each) => new RegExp(`^${escaped(each)}$`).test(origin));
  // A browser that names the host is told nothing about the others.
  const hosts = new Set(location.ancestorOrigins ? [location.ancestorOrigins[0]] : [location.origin, ...origins.filter((each) => !each.includes("*"))]);
  const tell = (message) => {
    for (const origin of hosts) if (isAllowed(origin)) parent.postMessage({ headlight: 1, ...message }, origin);
  };
  let told = "";
  const tellChosen = () => {
    const chosen = Object.fromEntries(new URLSearchParams(location.search));
    for (const name of ["embed", "embed_options"]) delete chosen[name];
    const view = location.pathname.split("/").at(-1);
    const now = JSON.stringify([view, chosen]);
    if (now !== told) tell({ view, chosen });
    told = now;
  };
  for (const name of ["pushState", "replaceState"]) {
    const usual = history[name].bind(history);
    history[name] = (...given) => { usual(...given); tellChosen(); };
  }
  window.addEventListener("message", ({ source, origin, data }) => {
    if (source !== parent || !isAllowed(origin) || data?.headlight !== 1) return;
    hosts.add(origin);
    const { theme, lang, sentence, chosen } = data;
    if (["light", "dark"].includes(theme) && !new URLSearchParams(location.search).has("theme")) wear(theme);
    if ([lang, sentence, chosen].some((each) => each !== undefined)) take({ lang, sentence, chosen });
  });
  const content = document.querySelector("[data-testid=stMainBlockContainer]");
  new ResizeObserver(() => tell({ height: Math.ceil(content.scrollHeight) })).observe(content.firstElementChild);
  tell({ ready: true });
  tellChosen();
}
