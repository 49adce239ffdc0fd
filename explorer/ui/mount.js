// Mounts a view of an exported page; views_script (components/standalone.py) sets `views`.

async function unpacked(sent, isPacked) {
  const letters = atob(sent);
  const data = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) data[at] = letters.charCodeAt(at);
  if (!isPacked) return data;
  const inflated = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(inflated).arrayBuffer());
}
window.headlight = async function (view, place, sent, isPacked) {
  const data = await unpacked(sent, isPacked);
  const parentElement = document.getElementById(place);
  const draw = () => window.views[view]({ parentElement, data, setTriggerValue: () => {}, plays: true });
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("headlight-theme", draw);
};
