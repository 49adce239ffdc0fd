// In a notebook the page is shown in a frame (notebook/picture.py). It follows the notebook's light
// or dark theme (which may differ from the system's) and sets the frame's height. In a frame of
// another origin (a notebook that isolates its outputs) it scrolls instead.
(() => {
  let frame = null;
  try { frame = window.frameElement; } catch { return; } // a frame of another origin, or none
  if (!frame) return;
  const style = document.documentElement.style;
  const outside = frame.ownerDocument;
  const named = "html[theme=dark], [data-theme=dark], .vscode-dark, [data-jp-theme-light=false]";
  const wear = () => {
    const colour = getComputedStyle(frame.parentElement).color;
    const [r, g, b] = (colour.match(/[\d.]+/g) ?? []).map(Number);
    const dark = outside.querySelector(named) || 0.3 * r + 0.59 * g + 0.11 * b > 128;
    const [ink, paper] = dark ? ["INK_DARK", "PAPER_DARK"] : ["INK_LIGHT", "PAPER_LIGHT"];
    if (style.color && style.getPropertyValue("--st-text-color") === ink) return;
    for (const [name, value] of [["--st-text-color", ink], ["--st-background-color", paper],
      ["color", ink], ["background", paper]]) style.setProperty(name, value);
    window.dispatchEvent(new Event("headlight-theme"));
  };
  wear();
  const watched = new MutationObserver(() => setTimeout(wear, 200)); // its style sheets load first
  for (const node of [outside.documentElement, outside.body]) {
    watched.observe(node, { attributes: true });
  }
  style.overflowY = "hidden";
  const fit = () => { frame.style.height = document.documentElement.offsetHeight + "px"; };
  new ResizeObserver(fit).observe(document.documentElement);
})();
