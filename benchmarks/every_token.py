"""Change every setting of `tokenizer_config.json` in turn, and compare tokens with `transformers`.

The settings come from the signatures of each tokenizer class. For each value, both libraries open
the folder, and must give the same tokens, or this one refuses the value with the setting's name.
"""

import inspect
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers as hf

from benchmarks import parity
from benchmarks.every_key import ABSENT, OUTCOMES, Counts, row
from models.config import ModelConfig
from models.foreign.opening import _tokenizer
from models.foreign.plan import Plan
from models.refusals import Refusal

CLASSES = (
    *("BertTokenizer", "GPT2Tokenizer", "RobertaTokenizer", "LlamaTokenizer", "T5Tokenizer"),
    *("XLMRobertaTokenizer", "AlbertTokenizer", "CamembertTokenizer", "MBartTokenizer"),
    *("GemmaTokenizer", "Qwen2Tokenizer", "GPTNeoXTokenizer", "NllbTokenizer"),
    *("OpenAIGPTTokenizer", "TokenizersBackend"),
)
SETTINGS = {
    *("add_bos_token", "add_eos_token", "split_special_tokens", "clean_up_tokenization_spaces"),
    *("model_max_length", "padding_side", "truncation_side", "added_tokens_decoder"),
    *("additional_special_tokens", "extra_special_tokens", "bos_token", "eos_token", "unk_token"),
    *("pad_token", "cls_token", "sep_token", "mask_token", "do_lower_case", "add_prefix_space"),
}
"""Settings that every class takes, or published files contain."""
FILES = {"self", "args", "kwargs", "vocab", "merges", "backend", "vocab_file", "tokenizer_file"}
NEW = "<new>"
TEXTS = [text for text in parity.TO_CUT if text and "<unk>" not in text]
TEXTS += ["Don't do  that . , ok ?", "\ttwo\n lines", "Ünï İs café"]
CONFIG = ModelConfig(family="encoder-only", vocab_size=9999, d_model=8, n_layers=1, n_heads=1)
PLAN = Plan(CONFIG, (), starts_with=0)


def values(key: str, value: Any) -> Iterator[Any]:
    """Other values of a setting."""
    if key == "added_tokens_decoder":
        yield from ({"5": {"content": NEW, "special": special}} for special in (True, False))
    elif key.endswith("special_tokens"):
        yield from ([NEW], [])
    elif key.endswith("_token"):
        yield from (None, NEW, {"content": NEW, "lstrip": True, "__type": "AddedToken"})
    elif key.endswith("_side"):
        yield from ("left", "right")
    elif isinstance(value, int) and not isinstance(value, bool):
        yield 5
    else:
        yield from (True, False, None)


def ours(folder: Path) -> list[list[int]]:
    """The tokens of every text in this library."""
    tokenizer = _tokenizer(folder, {}, PLAN)
    before, behind = tokenizer.around()
    return [[*before, *tokenizer.encode(text), *behind] for text in TEXTS]


def theirs(folder: Path) -> list[list[int]]:
    """The tokens of every text in `transformers`."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    return [list(tokenizer(text).input_ids) for text in TEXTS]


def swept(name: str) -> Counts:
    """Change every setting of one class."""
    counts, cls = Counts(), getattr(hf, name)
    usual = cls if name != "TokenizersBackend" else hf.GPT2Tokenizer
    trained = usual().train_new_from_iterator([*parity.CORPUS, *parity.CHINESE] * 3, 400)
    named = {each for part in cls.__mro__ for each in _parameters(part)}
    with tempfile.TemporaryDirectory() as made:
        folder, file = Path(made), Path(made, "tokenizer_config.json")
        trained.save_pretrained(folder)
        saved = json.loads(file.read_text()) | {"tokenizer_class": name}
        file.write_text(json.dumps(saved))
        before = theirs(folder)
        if ours(folder) != before:
            counts.wrong.append(f"{name}: wrong before any change")
        for key in sorted({*saved, *SETTINGS, *named} - FILES - {"tokenizer_class"}):
            for value in (ABSENT, *values(key, saved.get(key))):
                said = {each: saved[each] for each in saved if each != key}
                said |= {} if value is ABSENT else {key: value}
                if said == saved:
                    continue
                file.write_text(json.dumps(said))
                try:
                    expected = theirs(folder)
                except Exception:  # whatever transformers refuses
                    continue
                counts.keys.add(key)
                outcome = compared(folder, key, expected, before)
                counts.outcomes[outcome] += 1
                if outcome in ("wrong", "unnamed"):
                    shown = "absent" if value is ABSENT else json.dumps(value)
                    counts.wrong.append(f"{name}: {key} = {shown}: {outcome}")
    return counts


def _parameters(cls: type) -> set[str]:
    return set(inspect.signature(cls.__init__).parameters) if "__init__" in vars(cls) else set()  # type: ignore[misc]


def compared(folder: Path, key: str, expected: list[list[int]], before: list[list[int]]) -> str:
    """What becomes of a changed setting, as in `every_key`."""
    try:
        found = ours(folder)
    except Refusal as refused:
        named = "refused" if expected != before else "refused without effect"
        return named if key in str(refused) else "unnamed"
    if found != expected:
        return "wrong"
    return "equal" if expected != before else "no effect"


def main() -> int:
    """Sweep all or the named classes; exit status 1 if any value is wrong in silence."""
    hf.logging.set_verbosity(50)
    print("| tokenizer | settings | " + " | ".join(OUTCOMES) + " |", flush=True)
    wrong: list[str] = []
    for name in sys.argv[1:] or CLASSES:
        counts = swept(name)
        print(row(name, counts), *(f"\n    {each}" for each in counts.wrong), flush=True)
        wrong += counts.wrong
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
