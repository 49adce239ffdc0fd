// The page of an export (components/standalone.py). INK and PAPER are colours of the light theme.

// Printing is always light: scripts redraw for it and restore afterwards (a print style sheet
// affects text only).
(() => {
  const { style } = document.documentElement;
  const light = { color: "INK", background: "PAPER" };
  [light["--st-text-color"], light["--st-background-color"]] = Object.values(light);
  let before = null;
  const wear = (colours) => {
    for (const [name, value] of Object.entries(colours)) style.setProperty(name, value);
    window.dispatchEvent(new Event("headlight-theme"));
  };
  window.addEventListener("beforeprint", () => {
    const names = Object.keys(light);
    before ??= Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name)]));
    wear(light);
  });
  window.addEventListener("afterprint", () => {
    if (before) wear(before);
    before = null;
  });
})();

window.headlightChart = function (place, [light, dark], toImageButtonOptions) {
  const options = { ...toImageButtonOptions, format: "svg", scale: 1 };
  const click = (chart) => window.Plotly.downloadImage(chart, options);
  const svg = { name: "SVG", icon: window.Plotly.Icons.disk, click };
  const modeBarButtons = [["toImage", svg]];
  const config = { displaylogo: false, responsive: true, toImageButtonOptions, modeBarButtons };
  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const paper = style.getPropertyValue("--st-background-color").trim();
    const isDark = parseInt(paper.slice(1), 16) < 0x808080;
    window.Plotly.react(place, Object.assign({}, dark && isDark ? dark : light, { config }));
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("headlight-theme", draw);
};
