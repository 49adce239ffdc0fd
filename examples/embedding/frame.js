// Gives each embedded picture the height that it asks for.
window.addEventListener("message", ({ source, data }) => {
  if (data?.headlight !== 1 || typeof data.height !== "number") return;
  for (const frame of document.querySelectorAll("iframe")) {
    if (frame.contentWindow === source) frame.style.height = `${data.height}px`;
  }
});
