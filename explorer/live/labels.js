// What is shown for each token: explorer/labels.py.

const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Bopomofo}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}\p{sc=Tibetan}]/u;
const spaced = (character) => /^\p{L}$/u.test(character) && !UNSPACED.test(character);
const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

/** The characters of some bytes, and for each byte the index of its character. */
function charactersOf(bytes) {
  const [characters, ofByte] = [[], []];
  for (let start = 0; start < bytes.length;) {
    let size = 1;
    let character = `<${bytes[start].toString(16).toUpperCase().padStart(2, "0")}>`;
    for (let length = 1; length <= 4 && start + length <= bytes.length; length += 1) {
      try {
        character = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(start, start + length));
        size = length;
        break;
      } catch { /* not a whole character yet */ }
    }
    for (let byte = 0; byte < size; byte += 1) ofByte.push(characters.length);
    characters.push(character);
    start += size;
  }
  return [characters, ofByte];
}

/** The label of each token: "·" precedes a piece inside a word; subscripts count shared characters. */
export function labelsOf(tokenizer, ids) {
  const special = ids.map(tokenizer.isSpecial);
  const pieces = ids.map((id, at) => (special[at] ? new Uint8Array() : tokenizer.bytesOf(id)));
  const starts = [0];
  pieces.forEach((piece) => starts.push(starts.at(-1) + piece.length));
  const [characters, ofByte] = charactersOf(Uint8Array.from(pieces.flatMap((piece) => Array.from(piece))));
  const parts = ids.map((_, at) => [...new Set(ofByte.slice(starts[at], starts[at + 1]))]);
  const owners = characters.map(() => []);
  parts.forEach((numbers, at) => numbers.forEach((number) => owners[number].push(at)));
  return ids.map((id, at) => {
    if (special[at]) return tokenizer.piece(id);
    const text = parts[at].map((number) => {
      const place = owners[number].length > 1 ? String(owners[number].indexOf(at) + 1) : "";
      return characters[number] + [...place].map((digit) => SUBSCRIPTS[digit]).join("");
    }).join("");
    const place = starts[at] ? ofByte[starts[at] - 1] : -1;
    const before = starts[at] ? characters[place] : " ";
    const follows = at > 0 && !special[at - 1];
    if (follows && parts[at].includes(place)) return text;
    if (follows && spaced([...text][0] ?? "") && spaced(before)) return `·${text}`;
    return shown(text.trim() || (text.includes("\n") ? "↵" : text ? "␣" : "∅"));
  });
}

/** Without invisible characters, and without effect on the direction of other text. */
function shown(text) {
  const plain = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (each) => (
    "\u200c\u200d".includes(each) ? each : `[U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`));
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(plain) ? `\u2068${plain}\u2069` : plain;
}
