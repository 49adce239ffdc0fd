// Text to tokens and back, from the parts of a tokenizer.json that explorer/live/tokens.py lets through.

const bytes = (text) => new TextEncoder().encode(text);

/** The character of each byte in byte-level tokenizers. Radford et al. 2019, encoder.py. */
const ALPHABET = (() => {
  const printable = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let further = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : further++));
})();
const BYTE_OF = new Map(ALPHABET.map((character, byte) => [character, byte]));
const bytesOfLetters = (piece) => Array.from(piece).flatMap((each) => (BYTE_OF.has(each) ? BYTE_OF.get(each) : Array.from(bytes(each))));

/** GPT-2's words: contractions, letters, numbers, other characters, and blanks. */
const GPT2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

const pattern = ({ Regex: source, String: plain }) => (
  new RegExp(source ?? plain.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "gu"));

const NORMALIZERS = {
  Sequence: ({ normalizers }, text) => normalizers.reduce((so_far, each) => normalized(each, so_far), text),
  NFC: (_, text) => text.normalize("NFC"),
  NFD: (_, text) => text.normalize("NFD"),
  NFKC: (_, text) => text.normalize("NFKC"),
  NFKD: (_, text) => text.normalize("NFKD"),
  Lowercase: (_, text) => text.toLowerCase(),
  Prepend: ({ prepend }, text) => (text ? prepend + text : text),
  Strip: ({ strip_left, strip_right }, text) => {
    const cut = strip_left ? text.trimStart() : text;
    return strip_right ? cut.trimEnd() : cut;
  },
  Replace: ({ pattern: from, content }, text) => text.replace(pattern(from), () => content),
};
const normalized = (rule, text) => (rule ? NORMALIZERS[rule.type](rule, text) : text);

/** Each piece split at the matches of a pattern, which are pieces of their own. */
const isolated = (pieces, expression) => pieces.flatMap((piece) => {
  const parts = [];
  let end = 0;
  for (const { 0: match, index } of piece.matchAll(expression)) {
    if (index > end) parts.push(piece.slice(end, index));
    if (match) parts.push(match);
    end = index + match.length;
  }
  return end < piece.length ? [...parts, piece.slice(end)] : parts;
});

const CUTS = {
  Sequence: ({ pretokenizers }, pieces) => pretokenizers.reduce((so_far, each) => cut(each, so_far), pieces),
  Metaspace: ({ replacement, prepend_scheme, split }, pieces) => pieces.flatMap((piece, at) => {
    let text = piece.replaceAll(" ", replacement);
    if ((prepend_scheme === "always" || (prepend_scheme === "first" && at === 0)) && !text.startsWith(replacement)) text = replacement + text;
    return split ? text.split(new RegExp(`(?=${replacement})`, "u")) : [text];
  }),
  Split: ({ pattern: at }, pieces) => isolated(pieces, pattern(at)),
  Digits: ({ individual_digits: one }, pieces) => isolated(pieces, one ? /\p{N}/gu : /\p{N}+/gu),
  ByteLevel: ({ add_prefix_space: blank, use_regex: splits }, pieces) => {
    const begun = pieces.map((piece) => (blank && !piece.startsWith(" ") ? ` ${piece}` : piece));
    return (splits ? isolated(begun, GPT2) : begun).map((piece) => Array.from(bytes(piece), (byte) => ALPHABET[byte]).join(""));
  },
};
const cut = (rule, pieces) => (rule ? CUTS[rule.type](rule, pieces) : pieces).filter(Boolean);

const DECODERS = {
  Sequence: ({ decoders }, pieces) => decoders.reduce((so_far, each) => decoded(each, so_far), pieces),
  Metaspace: ({ replacement, prepend_scheme }, pieces) => pieces.map((piece, at) => {
    const text = piece.replaceAll(replacement, " ");
    return at === 0 && prepend_scheme !== "never" ? text.replace(/^ /, "") : text;
  }),
  ByteLevel: (_, pieces) => [new TextDecoder().decode(Uint8Array.from(pieces.flatMap(bytesOfLetters)))],
  ByteFallback: (_, pieces) => {
    const parts = [];
    pieces.forEach((piece) => {
      const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
      if (!byte) parts.push(piece);
      else if (Array.isArray(parts.at(-1))) parts.at(-1).push(parseInt(byte[1], 16));
      else parts.push([parseInt(byte[1], 16)]);
    });
    return parts.map((part) => (Array.isArray(part) ? new TextDecoder().decode(new Uint8Array(part)) : part));
  },
  Fuse: (_, pieces) => [pieces.join("")],
  Replace: ({ pattern: from, content }, pieces) => pieces.map((piece) => piece.replace(pattern(from), () => content)),
  Strip: ({ content, start }, pieces) => pieces.map((piece) => {
    let count = 0;
    while (count < start && piece[count] === content) count += 1;
    return piece.slice(count);
  }),
};
const decoded = (rule, pieces) => (rule ? DECODERS[rule.type](rule, pieces) : [pieces.join(" ")]);

/** Merges the pair of the lowest rank until there is none. Sennrich et al. 2016. */
function merged(word, ranks) {
  const parts = [...word];
  for (;;) {
    let [best, at] = [Infinity, -1];
    for (let i = 0; i + 1 < parts.length; i += 1) {
      const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`);
      if (rank < best) [best, at] = [rank, i];
    }
    if (at < 0) return parts;
    parts.splice(at, 2, parts[at] + parts[at + 1]);
  }
}

export function tokenizerOf({ normalizer, pre_tokenizer, decoder, pieces, merges, special, marks, byte_fallback, ignore_merges }) {
  const ids = new Map(pieces.map((piece, id) => [piece, id]));
  const ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank]));
  const isSpecial = new Set(special);
  const known = new Map();
  const byteLevel = JSON.stringify([pre_tokenizer, decoder]).includes("ByteLevel");

  function tokensOf(word) {
    if (known.has(word)) return known.get(word);
    const parts = ignore_merges && ids.has(word) ? [word] : merged(word, ranks);
    const found = parts.flatMap((part) => {
      if (ids.has(part)) return [ids.get(part)];
      const spelled = byte_fallback ? Array.from(bytes(part), (byte) => ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`)) : [];
      return spelled.length && spelled.every((each) => each !== undefined) ? spelled : [marks.unknown].filter((each) => each !== null);
    });
    known.set(word, found);
    return found;
  }
  const plain = (text) => cut(pre_tokenizer, [normalized(normalizer, text)]).flatMap(tokensOf);

  return {
    marks,
    isSpecial: (id) => isSpecial.has(id),
    piece: (id) => pieces[id] ?? `<${id}>`,
    /** The tokens of a text without special ones; "[MASK]" is the token to fill in. */
    encode(text) {
      if (marks.mask === null) return plain(text);
      return text.split("[MASK]").flatMap((part, at) => (at ? [marks.mask] : []).concat(part.trim() ? plain(part.trimEnd()) : []));
    },
    decode: (tokens) => decoded(decoder, tokens.filter((id) => !isSpecial.has(id)).map((id) => pieces[id])).join("").trim(),
    /** The bytes of a token's text. */
    bytesOf(id) {
      const byte = byte_fallback && /^<0x([0-9A-F]{2})>$/.exec(pieces[id]);
      if (byte) return new Uint8Array([parseInt(byte[1], 16)]);
      if (!byteLevel) return bytes(pieces[id].replaceAll("▁", " "));
      return Uint8Array.from(bytesOfLetters(pieces[id]));
    },
  };
}
