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

/** Bytes as text; those that are not valid UTF-8 are written as <E4>. */
function numbered(data) {
  const reader = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const valid = (from, to) => { try { return reader.decode(data.subarray(from, to)); } catch { return null; } };
  let text = "";
  for (let at = 0, size; at < data.length; at += size ?? 1) {
    size = [1, 2, 3, 4].find((each) => at + each <= data.length && valid(at, at + each) !== null);
    text += size ? valid(at, at + size) : `<${data[at].toString(16).toUpperCase()}>`;
  }
  return text;
}

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
  StripAccents: (_, text) => text.replace(/\p{M}/gu, ""),
  BertNormalizer: ({ clean_text: cleans, handle_chinese_chars: apart, strip_accents: plain, lowercase: lower }, text) => {
    let found = text;
    if (cleans) found = found.replace(/[\t\n\r]/g, " ").replace(/[\0\ufffd\p{Cc}\p{Cf}\p{Co}]/gu, "").replace(/\s/g, " ");
    if (apart) found = found.replace(CHINESE, " $& ");
    if (plain ?? lower) found = found.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lower ? found.toLowerCase() : found;
  },
  /** SentencePiece's table: of a grapheme of at most five bytes, the shortest beginning in the table replaces all of it. */
  Precompiled: ({ table }, text) => {
    const replaced = (part) => {
      let begun = "";
      for (const letter of part) if (Object.hasOwn(table, begun += letter)) return table[begun];
      return null;
    };
    return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => (
      (bytes(segment).length < 6 ? replaced(segment) : null) ?? Array.from(segment, (letter) => replaced(letter) ?? letter).join(""))).join("");
  },
};
/** The ideographs that BERT reads one by one. Devlin et al. 2018, tokenization.py. */
const CHINESE = /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;
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
  BertPreTokenizer: (_, pieces) => pieces.flatMap((piece) => piece.match(/[\p{P}$+<=>^`|~]|[^\s\p{P}$+<=>^`|~]+/gu) ?? []),
  WhitespaceSplit: (_, pieces) => pieces.flatMap((piece) => piece.split(/\s+/)),
  Digits: ({ individual_digits: one }, pieces) => isolated(pieces, one ? /\p{N}/gu : /\p{N}+/gu),
  ByteLevel: ({ add_prefix_space: blank, use_regex: splits }, pieces) => {
    const begun = pieces.map((piece) => (blank && !piece.startsWith(" ") ? ` ${piece}` : piece));
    return (splits ? isolated(begun, GPT2) : begun).map((piece) => Array.from(bytes(piece), (byte) => ALPHABET[byte]).join(""));
  },
};
const cut = (rule, pieces) => (rule ? CUTS[rule.type](rule, pieces.filter(Boolean)) : pieces).filter(Boolean);

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
  WordPiece: ({ prefix, cleanup }, pieces) => pieces.map((piece, at) => {
    const joined = at === 0 ? piece : piece.startsWith(prefix) ? piece.slice(prefix.length) : ` ${piece}`;
    return cleanup ? CLEANUP.reduce((text, [from, to]) => text.replaceAll(from, to), joined) : joined;
  }),
  Fuse: (_, pieces) => [pieces.join("")],
  Replace: ({ pattern: from, content }, pieces) => pieces.map((piece) => piece.replace(pattern(from), () => content)),
  Strip: ({ content, start }, pieces) => pieces.map((piece) => {
    let count = 0;
    while (count < start && piece[count] === content) count += 1;
    return piece.slice(count);
  }),
};
const CLEANUP = [[" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"], [" do not", " don't"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"]];
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

/** The longest piece at each place of a word, or nothing if it has an unknown part. WordPiece, Devlin et al. 2018. */
function longest(word, ids, { prefix, most }) {
  const [letters, parts] = [Array.from(word), []];
  for (let from = 0, to; from < letters.length; from = to) {
    const pieceTo = (end) => (from ? prefix : "") + letters.slice(from, end).join("");
    for (to = letters.length; to > from && !ids.has(pieceTo(to)); to -= 1);
    if (to === from || letters.length > most) return [null];
    parts.push(pieceTo(to));
  }
  return parts;
}

/** The pieces with the largest sum of scores; unknown characters in a row are one piece. Kudo 2018. */
function likeliest(word, { scores, unknown, least, length }) {
  const letters = Array.from(word);
  const best = [{ score: 0 }];
  letters.forEach((letter, from) => {
    const offer = (to, piece, score) => {
      const sum = best[from].score + score;
      if (!best[to] || sum > best[to].score) best[to] = { score: sum, from, piece, isKnown: score > least && piece !== unknown };
    };
    for (let to = from + 1, piece = ""; to <= Math.min(letters.length, from + length); to += 1) {
      piece += letters[to - 1];
      if (scores.has(piece)) offer(to, piece, scores.get(piece));
    }
    if (!scores.has(letter)) offer(from + 1, letter, least);
  });
  const found = [];
  for (let to = letters.length, wasKnown = true; to > 0; to = best[to].from) {
    const { piece, isKnown } = best[to];
    if (isKnown || wasKnown) found.unshift(piece);
    else found[0] = piece + found[0];
    wasKnown = isKnown;
  }
  return found;
}

export function tokenizerOf({ normalizer, pre_tokenizer, decoder, pieces, merges, words, scored, special, marks, pair, foreign, codes, byte_fallback, ignore_merges }) {
  const ids = new Map(pieces.map((piece, id) => [piece, id]));
  const ranks = new Map((merges ?? []).map((merge, rank) => [merge.join(" "), rank]));
  const isSpecial = new Set(special);
  const known = new Map();
  const byteLevel = JSON.stringify([pre_tokenizer, decoder]).includes("ByteLevel");

  const unigram = scored && {
    scores: new Map(scored.pieces), unknown: scored.unknown, length: Math.max(...scored.pieces.map(([piece]) => piece.length)),
    least: scored.pieces.reduce((least, [, score]) => Math.min(least, score), Infinity) - 10,
  };
  const split = (word) => {
    if (words) return longest(word, ids, words);
    if (unigram) return likeliest(word, unigram);
    return ignore_merges && ids.has(word) ? [word] : merged(word, ranks);
  };

  /** The tokens of a part of a word, or null if the vocabulary has none. */
  function readPart(part) {
    if (ids.has(part)) return ids.get(part) === marks.unknown ? null : [ids.get(part)];
    const spelled = byte_fallback && part !== null ? Array.from(bytes(part), (byte) => ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`)) : [];
    return spelled.length && spelled.every((each) => each !== undefined) ? spelled : null;
  }

  function tokensOf(word) {
    if (known.has(word)) return known.get(word);
    const found = split(word).flatMap((part) => readPart(part) ?? [marks.unknown].filter((each) => each !== null));
    known.set(word, found);
    return found;
  }

  /** The characters of a word that the vocabulary lacks, or the word if it is unknown as a whole. */
  function lackedIn(word) {
    const isLacked = (part) => readPart(part) === null;
    return split(word).filter(isLacked).flatMap((part) => {
      const letters = Array.from(part ?? word);
      const alone = part === null ? letters.filter((letter) => split(letter).some(isLacked)) : letters;
      return alone.length ? alone : [word];
    });
  }
  const plain = (text) => {
    const [code] = (codes && /^>>[^]*?<</.exec(text)) || [""];
    return [...(code ? [ids.get(code) ?? marks.unknown] : []), ...uncoded(text.slice(code.length))];
  };
  const wordsOf = (text) => cut(pre_tokenizer, [normalized(normalizer, text)]);
  const uncoded = (text) => wordsOf(text).flatMap(tokensOf);

  return {
    marks,
    pair,
    isSpecial: (id) => isSpecial.has(id),
    piece: (id) => pieces[id] ?? `<${id}>`,
    /** The tokens of a text without special ones; "[MASK]", or its name in the vocabulary, is the token to fill in. */
    encode(text) {
      if (marks.mask === null) return plain(text);
      return text.replaceAll(pieces[marks.mask], "[MASK]").split("[MASK]").flatMap((part, at) => (at ? [marks.mask] : []).concat(part.trim() ? plain(part.trimEnd()) : []));
    },
    /** The distinct characters, or words, of a text that the vocabulary lacks, after the normalizer. */
    unknown(text) {
      const parts = marks.mask === null ? [text] : text.replaceAll(pieces[marks.mask], "[MASK]").split("[MASK]");
      const lacked = parts.flatMap((part) => wordsOf(codes ? part.replace(/^>>[^]*?<</, "") : part).flatMap(lackedIn));
      return [...new Set(lacked.map((each) => each.replaceAll("▁", "").trim() || each))];
    },
    decode(tokens) {
      const shown = tokens.filter((id) => !isSpecial.has(id));
      const text = decoded(decoder, shown.map((id) => pieces[id])).join("");
      if (!foreign) return text.trim();
      if (!text.includes("\ufffd")) return text;
      const joined = numbered(Uint8Array.from(shown.flatMap((id) => Array.from(bytesOf(id)))));
      return text.startsWith(" ") ? joined : joined.replace(/^ +/, "");
    },
    bytesOf,
  };

  /** The bytes of a token's text. */
  function bytesOf(id) {
    const byte = byte_fallback && /^<0x([0-9A-F]{2})>$/.exec(pieces[id]);
    if (byte) return new Uint8Array([parseInt(byte[1], 16)]);
    if (words) return bytes(pieces[id].startsWith(words.prefix) && pieces[id] !== words.prefix ? pieces[id].slice(words.prefix.length) : ` ${pieces[id]}`);
    if (!byteLevel) return bytes(pieces[id].replaceAll("▁", " "));
    return Uint8Array.from(bytesOfLetters(pieces[id]));
  }
}
