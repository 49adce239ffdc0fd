"""The scripts of the page without a server: the engine computes what torch computes, design by
design, and texts are cut as the `tokenizers` library cuts them.
"""

from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from foreign import GOLDEN, NAMES, TEXTS, TO_CUT, TOKENIZERS, Golden
from new_kinds import registered
from tiny import tiny_model

from explorer.library import LoadedModel, open_model
from explorer.live import tokens
from explorer.live.site import FOLDER
from explorer.live.weights import described, tensors_of
from explorer.problems import InputProblem
from explorer.scripts import link
from models.foreign import open_folder
from models.foreign.sentencepieces import MarianTokenizer, read_unigram
from models.foreign.tokens import ForeignTokenizer
from models.hooks import Record, visiting
from models.marks import library_of
from models.positions import POSITIONS
from models.rows import Rows
from models.tokenizer import Tokenizer
from models.training.home import asset

pytestmark = pytest.mark.browser
ENGINE = """([config, listed, data, tied, tgt, src]) => {
    const buffer = Uint8Array.from(atob(data), each => each.charCodeAt(0)).buffer;
    const [floats, weights] = [new Float32Array(buffer), {}];
    let at = 0;
    for (const [name, shape] of listed) {
        const size = shape.reduce((product, side) => product * side, 1);
        weights[name] = Object.assign(floats.slice(at, at + size), { inner: shape.at(-1) });
        at += size;
    }
    for (const [name, same] of Object.entries(tied)) weights[name] = weights[same];
    const model = $modules["engine.js"].modelOf(config, weights);
    const [record, cache] = [{}, { length: 0 }];
    const memory = src && model.run(model.stacks[0], src, { record });
    const logits = [...model.logits(model.run(model.last, tgt, { memory, record }))];
    const step = token => [...model.logits(model.run(model.last, [token], { memory, cache }))];
    const steps = model.last.causal ? tgt.flatMap(step) : logits;
    const again = model.last.causal ? { ...record, ...model.recall(model.last, cache) } : record;
    const paths = Object.keys(record).filter(path => record[path].pattern);
    const seen = from => paths.map(path => [`${path}.hook_pattern`, [...from[path].pattern]]);
    return [[["hook_logits", logits], ...seen(record)], [["hook_logits", steps], ...seen(again)]];
}"""
NOT_RUN = {
    *("albert", "electra", "electra-wide", "mixtral", "qwen3_moe"),
    *("llama-dynamic", "llama-longrope", "phi3"),
    *("bart-headless", "bert-headless", "llama-headless", "marian-headless", "t5-encoder"),
    *("gpt2-headless", "qwen3_moe-window"),
    *("marian-apart", "modernbert", "qwen2_moe"),
    *("vit", "deit", "dinov2", "dinov2_with_registers", "siglip_vision_model-cut"),
    *("clip_vision_model", "siglip_vision_model"),
}
"""Colours, two vocabularies, narrow embeddings, experts, angles by length, no LM head."""
DESIGNS: list[dict[str, Any]] = [
    {"positions": "kerple"},
    {"positions": "kerple", "still_layers": (0,), "family": "decoder-only"},
    {"positions": "ramp", "family": "encoder-only"},
    {"positions": "spiral", "ffn": "reglu", "family": "decoder-only"},
    *({"positions": positions} for positions in POSITIONS),
    {"positions": "rotary", "near_layers": (1,), "near_rope_base": 50.0, "rotary_dim": 4},
]


def test_each_kind_computes_the_numbers_of_torch(browser):
    page, tokenizer = browser.new_page(), open_model("reverse").tokenizer
    page.add_script_tag(content=link(FOLDER, "page.js").replace("export default ", ""))
    for design in DESIGNS:
        with registered("kerple", "ramp", "spiral", "reglu"):
            model = tiny_model(torch.float32, **design)
            config = described(LoadedModel("tiny", model, tokenizer, model.config, Path()))
            held = tensors_of(model, "float32")
        tgt, src = [1, 5, 3, 8, 4, 9], [7, 5, 9, 2] if "src" in model.reads else None
        given = [config, held.listed, b64encode(held.data).decode(), held.tied, tgt, src]
        with torch.inference_mode(), visiting(record := Record(lambda name: True)):
            model.read(Rows.of([tgt], [src or ()], model.marks))
        for hook, values in (pair for side in page.evaluate(ENGINE, given) for pair in side):
            own = record.activations[hook].numpy()
            np.testing.assert_allclose(np.reshape(values, own.shape), own, atol=2e-5)
    page.close()


@pytest.mark.sweep
def test_families_of_other_libraries_compute_their_numbers_or_are_refused(browser, tmp_path):
    page, refused, differences = browser.new_page(), set(), {}
    page.add_script_tag(content=link(FOLDER, "page.js").replace("export default ", ""))
    typed = [name for name in NAMES if not name.endswith("-pair")]
    for name in typed:
        golden, folder = Golden.load(name), tmp_path / name
        opened = open_folder(golden.write(folder))
        try:
            config = described(
                LoadedModel(name, opened.model, opened.tokenizer, opened.config, folder)
            )
        except InputProblem:
            refused.add(name)
            continue
        held = tensors_of(opened.model, "float32")
        data = b64encode(held.data).decode()
        for text_ in TEXTS:
            tgt, src = (golden.arrays[f"{text_}.{stream}"].tolist() for stream in ("tgt", "src"))
            src = src if "src" in opened.model.reads else None
            both = page.evaluate(ENGINE, [config, held.listed, data, held.tied, tgt, src])
            for hook, values in both[0] + both[1]:
                theirs = golden.arrays[f"{text_}/{hook}"]
                off = np.abs(np.reshape(values, theirs.shape) - theirs).max() / np.abs(theirs).max()
                differences[name] = max(differences.get(name, 0), float(off))
    page.close()
    # As in tests/models/foreign/test_same_numbers.py; torch itself is 2.3e-5 off in t5-gated.
    assert {name: off for name, off in differences.items() if off >= 1e-4} == {}
    assert refused == NOT_RUN


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
