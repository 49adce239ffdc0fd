import { fit, hatching } from "./canvas.js";
import { choice, el, rebuild, redraws } from "./dom.js";
import { css, followTheme, rgb } from "./palette.js";
import { unpack } from "./payload.js";

/** The picture that a model reads, in patches: a click hides a patch, or a pen writes on it. */
export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".hl");
  const { head, arrays } = unpack(data);
  const { words, rows, columns } = head;
  const [height, width] = [rows * head.high, columns * head.wide];
  const fine = Math.max(1, Math.round(768 / width)); // pixels of the drawing per pixel that is read
  const theme = followTheme(root);
  const mode = root.mode ?? "hide";
  // A payload packed before Python got the newest press has an older set.
  if (!(head.turn < root.turn)) Object.assign(root, { turn: head.turn ?? 0, hides: new Set(head.hidden) });
  const { hides } = root;

  const sheet = el("canvas"); // the picture, as fine as a pen needs
  [sheet.width, sheet.height] = [width * fine, height * fine];
  const pen = sheet.getContext("2d", { willReadFrequently: true });
  const small = el("canvas");
  [small.width, small.height] = [width, height];
  const image = small.getContext("2d").createImageData(width, height);
  for (let at = 0; at < width * height; at += 1) image.data.set([...arrays.levels.subarray(3 * at, 3 * at + 3), 255], 4 * at);
  small.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false; // raw pixels, as the model gets them
  pen.drawImage(small, 0, 0, sheet.width, sheet.height);

  const frame = el("div", "frame");
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", words.label);
  const patches = el("div", "patches");
  patches.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  for (let row = 0; row < rows; row += 1) for (let column = 0; column < columns; column += 1) {
    const index = head.order.indexOf(row * columns + column);
    const button = el("button");
    button.type = "button";
    button.dataset.at = "patch" + index;
    button.title = `${words.patch} ${head.tokens[index]}`;
    button.setAttribute("aria-label", button.title);
    button.setAttribute("aria-pressed", String(hides.has(index)));
    button.addEventListener("click", () => {
      if (!hides.delete(index)) hides.add(index);
      button.setAttribute("aria-pressed", String(hides.has(index)));
      draw(root.clientWidth);
      root.turn += 1;
      setTriggerValue("hidden", { turn: root.turn, patches: [...hides] });
    });
    patches.append(button);
  }
  frame.append(canvas, patches);

  const clear = el("button", "clear", words.clear);
  clear.type = "button";
  clear.dataset.at = "clear";
  clear.addEventListener("click", () => {
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, sheet.width, sheet.height);
    draw(root.clientWidth);
  });
  const bar = el("div", "bar-row");
  bar.append(choice("mode", words.mode, [["hide", words.hide], ["draw", words.draw]], mode, become), clear);

  function become(next) {
    root.mode = next;
    frame.classList.toggle("drawing", next === "draw");
    clear.hidden = next !== "draw";
  }

  let scale = 1;
  function draw(wide) {
    const side = Math.min(wide, 576, 300 * width / height);
    scale = side / width;
    const context = fit(canvas, side, height * scale);
    frame.style.width = side + "px";
    context.imageSmoothingEnabled = false;
    context.drawImage(sheet, 0, 0, side, height * scale);
    const [x, y] = [head.wide * scale, head.high * scale];
    context.fillStyle = hatching(context, theme.get("blocked"), theme.get("hatch"));
    hides.forEach((index) => {
      const cell = head.order[index];
      context.fillRect((cell % columns) * x, Math.floor(cell / columns) * y, x, y);
    });
    context.strokeStyle = css(rgb(theme.get("accent")), 0.25);
    context.lineWidth = 1;
    context.beginPath();
    for (let column = 1; column < columns; column += 1) { context.moveTo(column * x, 0); context.lineTo(column * x, height * scale); }
    for (let row = 1; row < rows; row += 1) { context.moveTo(0, row * y); context.lineTo(side, row * y); }
    context.stroke();
  }

  let from = null;
  const at = ({ offsetX, offsetY }) => [offsetX / scale * fine, offsetY / scale * fine];
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); from = at(event); stroke(from); };
  canvas.onpointermove = (event) => { if (from) stroke(at(event)); };
  canvas.onpointercancel = () => { from = null; };
  canvas.onpointerup = () => { if (from) { from = null; setTriggerValue("drawn", read()); } };

  function stroke(to) {
    Object.assign(pen, { lineWidth: height / 10 * fine, lineCap: "round", strokeStyle: "#000" });
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(to[0] + 0.01, to[1]);
    pen.stroke();
    from = to;
    draw(root.clientWidth);
  }

  /** The drawing as the model reads it: the mean red, green and blue of each pixel, as base64. */
  function read() {
    const { data: drawn } = pen.getImageData(0, 0, sheet.width, sheet.height);
    const sums = new Float32Array(3 * width * height);
    for (let y = 0; y < sheet.height; y += 1) for (let x = 0; x < sheet.width; x += 1) {
      const to = 3 * (Math.floor(y / fine) * width + Math.floor(x / fine));
      for (let channel = 0; channel < 3; channel += 1) sums[to + channel] += drawn[4 * (y * sheet.width + x) + channel];
    }
    return btoa(Array.from(sums, (sum) => String.fromCharCode(Math.round(sum / fine ** 2))).join(""));
  }

  become(mode);
  rebuild(root, bar, frame);
  return redraws(root, draw);
}
