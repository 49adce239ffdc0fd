// For a page that embeds pictures of Headlight: each frame gets the height that it asks for, and the
// language and theme of the page, unless its address names them. docs/embedding.md lists the messages.
{
  const root = document.documentElement;
  const frames = () => [...document.querySelectorAll("iframe[src*='embed=']")];

  function isDark() {
    for (const node of [document.body, root]) {
      const [r, g, b, a = 1] = getComputedStyle(node).backgroundColor.match(/[\d.]+/g).map(Number);
      if (a > 0) return 0.3 * r + 0.59 * g + 0.11 * b < 128;
    }
    const scheme = getComputedStyle(root).colorScheme; // decides the colour of a page without any
    return scheme.includes("dark") && (!scheme.includes("light") || matchMedia("(prefers-color-scheme: dark)").matches);
  }

  function greet(frame) {
    const asked = new URL(frame.src).searchParams;
    const message = { headlight: 1, lang: root.lang.split("-")[0], theme: isDark() ? "dark" : "light" };
    for (const name of ["lang", "theme"]) if (asked.has(name)) delete message[name];
    frame.contentWindow.postMessage(message, "*"); // no secret; until it has loaded, the frame is of this page's origin
  }

  const greetAll = () => frames().forEach(greet);
  window.addEventListener("message", ({ source, data }) => {
    const frame = data?.headlight === 1 && frames().find((each) => each.contentWindow === source);
    if (!frame) return;
    if (typeof data.height === "number") frame.style.height = `${data.height}px`;
    if (data.ready) greet(frame);
  });
  for (const node of [root, document.body]) new MutationObserver(greetAll).observe(node, { attributes: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", greetAll);
  greetAll(); // those that were ready before this script
}
