// Pictures for a model that reads them: grey levels, 0 (paper) to 255 (ink), [height, width].

const [POINTS, EDGE] = [44, 8]; // the size of letters, and the margin around them, before scaling

/** A font from the bytes of its file. */
export async function addFont(name, bytes) {
  const face = new FontFace(name, bytes);
  document.fonts.add(await face.load());
}

/** A word in the middle of a picture: models/pictures/faces.py, drawn by the browser. */
export function drawnWord(word, [height, width]) {
  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const chinese = /[\u4e00-\u9fff]/.test(word);
  const font = `${POINTS}px ${chinese ? "chinese" : "latin"}`;
  pen.font = font;
  const { actualBoundingBoxAscent: above, actualBoundingBoxDescent: below } = pen.measureText(chinese ? "我" : "Hgjpl");
  const long = Math.max(1, pen.measureText(word).width);
  const most = 0.84 * height / (above + below);
  const across = Math.min(most, (width - 6) / long);
  const down = Math.min(most, across / 0.72);
  canvas.width = Math.round(long) + 2 * EDGE;
  canvas.height = Math.ceil(above + below) + 2 * EDGE;
  pen.font = font; // a canvas forgets it with its size
  pen.fillText(word, EDGE, EDGE + above);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const ink = Float32Array.from({ length: data.length / 4 }, (_, at) => data[4 * at + 3]);
  const [wide, high] = [canvas.width * across, canvas.height * down].map((side) => Math.max(1, Math.round(side)));
  const small = averaged(ink, canvas.width, canvas.height, wide, high);
  const picture = new Uint8Array(height * width);
  const [left, top] = [Math.floor((width - wide) / 2), Math.floor((height - high) / 2)];
  for (let y = 0; y < high; y += 1) for (let x = 0; x < wide; x += 1) {
    const [row, column] = [top + y, left + x];
    if (row >= 0 && row < height && column >= 0 && column < width) picture[row * width + column] = Math.round(small[y * wide + x]);
  }
  return picture;
}

/** Each pixel of the smaller picture is the mean of those that it covers. */
function averaged(ink, width, height, wide, high) {
  const covered = (at, count, whole) => {
    const [middle, half] = [(at + 0.5) * whole / count, Math.max(1, whole / count) / 2];
    return [Math.max(0, Math.floor(middle - half + 0.5)), Math.min(whole, Math.floor(middle + half + 0.5))];
  };
  return Float32Array.from({ length: wide * high }, (_, at) => {
    const [x0, x1] = covered(at % wide, wide, width);
    const [y0, y1] = covered(Math.floor(at / wide), high, height);
    let sum = 0;
    for (let y = y0; y < y1; y += 1) for (let x = x0; x < x1; x += 1) sum += ink[y * width + x];
    return sum / ((x1 - x0) * (y1 - y0));
  });
}

/** The patches of a picture, column by column: lists of grey levels. */
export function patchesOf(picture, [height, width, high, wide]) {
  const rows = height / high;
  const places = Array.from({ length: high * wide }, (_, at) => Math.floor(at / wide) * width + at % wide);
  return Array.from({ length: rows * width / wide }, (_, patch) => (
    places.map((place) => picture[(patch % rows) * high * width + Math.floor(patch / rows) * wide + place])));
}

/** The label of each patch: its row and column, counted from 1. */
export const placesOf = ([height, width, high, wide]) => Array.from({ length: height / high * width / wide }, (_, patch) => (
  `${patch % (height / high) + 1},${Math.floor(patch / (height / high)) + 1}`));
