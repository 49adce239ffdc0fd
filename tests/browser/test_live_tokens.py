"""A page without a server cuts texts as the `tokenizers` library does."""

from random import Random

import pytest
from foreign import GOLDEN, TO_CUT, TOKENIZERS

from explorer.live import tokens
from explorer.live.site import FOLDER
from explorer.scripts import link
from models.foreign.sentencepieces import MarianTokenizer, read_unigram
from models.foreign.tokens import ForeignTokenizer
from models.marks import library_of
from models.tokenizer import Tokenizer
from models.training.home import asset

pytestmark = pytest.mark.browser
ODD = (
    *("é", "É", "ÀÇ", "İi", "ß", "ẞ", "Σς", "ǆ", "ﬁ", "ﬃ", "①", "Ⅳ", "½", "㎏", "№", "™"),
    *("ﷺ", "ｱﾞ", "Ａｂ", "한", "한국", "日本", "我你", "豈", "𠀀", "𝒜", "हिन्दी", "ไทย", "السّلام"),
    *("שָׁלוֹם", "e\u0301", "n\u0303o", "a\u0323\u0307", "👩\u200d🚀", "👍🏽", "🇩🇪", "❤\ufe0f"),
    *("\u00ad", "\u200b", "\u2009", "\u3000", "  ", "x" * 120, "don't", "$5+<=>", "a_b-c"),
    *("“so”", "…", "...", "¿que?", "##a", "[CLS]", "<unk>", "▁", "▁the", "she", "loved"),
    *("the", "park", "reads", "kind.", "THE", "1999", "3,14", "e.g."),
)
BLANKS = ("", " ", "  ", "\n", "\r\n\t", "\n    ")
CUT = """([described, texts]) => {
    const tokenizer = $modules["tokenizer.js"].tokenizerOf(described);
    return texts.map(text => {
        const ids = tokenizer.encode(text);
        const half = ids.filter((_, at) => at % 2 === 0); // of bytes, hardly ever valid
        const pieces = ids.map(id => [...tokenizer.bytesOf(id)]);
        return [ids, [ids, half].map(tokenizer.decode), pieces, tokenizer.unknown(text)];
    });
}"""


def test_texts_are_cut_as_the_library_cuts_them(browser):
    """WordPiece, Unigram, BPE of bytes and of characters, and Marian's two files."""
    random = Random(46)
    texts = [*filter(None, TO_CUT), *ODD]
    texts += [
        "".join(random.choice(ODD) + random.choice(BLANKS) for _ in range(random.randrange(2, 7)))
        for _ in range(150)
    ]
    readers: dict[str, Tokenizer] = {
        kind: ForeignTokenizer(library_of(TOKENIZERS[kind]().to_str()))
        for kind in ("word_pieces", "unigram", "metaspace", "byte_level")
    }
    readers["ours"] = Tokenizer.load(asset("checkpoints") / "en-zh" / "tokenizer.json")
    for side in ("source", "target"):
        pieces = read_unigram(GOLDEN / f"{side}.spm")
        names = ["</s>", "<unk>", ">>zho<<", *sorted(pieces.get_vocab())[::-1]]
        ids = {name: at for at, name in enumerate(dict.fromkeys(names))}
        readers[side] = MarianTokenizer(pieces, ids)
    page = browser.new_page()
    page.add_script_tag(content=link(FOLDER, "page.js").replace("export default ", ""))
    for name, reader in readers.items():
        mask = "" if reader.marks.mask is None else " a [MASK] b"
        asked = [each + mask for each in texts] + [f">>zho<< {TO_CUT[0]}"]
        found = page.evaluate(CUT, [tokens.described(reader), asked])
        for each, (ids, decoded, pieces, lacked) in zip(asked, found, strict=True):
            assert ids == reader.encode(each), (name, each)
            assert decoded == [reader.decode(ids), reader.decode(ids[::2])], (name, each)
            assert [bytes(piece) for piece in pieces] == [*map(reader.bytes_of, ids)], (name, each)
            if reader.marks.unknown in ids:
                assert lacked, (name, each)
            elif not reader.unknown(each):
                assert lacked == [], (name, each)
    page.close()
