"""Compare decoding with `transformers.generate`: beams and rules on tiny random models.

`--write` makes the golden file that the tests compare with; without it, the file is compared.
Run as `python -m benchmarks.elsewhere` in the environment of `make parity`.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers as hf

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from foreign import GOLDEN, Golden

FILE = GOLDEN / "elsewhere.json"
CLASSES = {
    "marian": "MarianMTModel",
    "t5": "T5ForConditionalGeneration",
    "t5-gated": "T5ForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
}
BEAMS: list[dict[str, Any]] = [
    {"num_beams": width, "length_penalty": penalty, "early_stopping": stop}
    for width in (2, 4)
    for penalty in (0.0, 1.0, 2.0)
    for stop in (True, False, "never")
]
RULES: list[dict[str, Any]] = [
    {"repetition_penalty": 1.3},
    {"no_repeat_ngram_size": 2},
    {"suppress_tokens": [5, 9, 21]},
    {"begin_suppress_tokens": [3, 8, 30]},
    {"bad_words_ids": [[7], [12, 4], [0]]},
    {"forced_bos_token_id": 17},
    {"forced_eos_token_id": 1},
    {"min_new_tokens": 6},
    {"repetition_penalty": 0.7, "no_repeat_ngram_size": 3, "forced_bos_token_id": 6},
]
SOURCES = [[4, 9, 33, 12, 8, 1], [50, 21, 7, 7, 19, 40, 1]]
LIMIT = 12


def asked() -> list[tuple[str, int, dict[str, Any]]]:
    """(Model, source, settings) of every case."""
    cases = [(name, at, beam) for name in CLASSES for at in (0, 1) for beam in BEAMS]
    rules = [{**rule, "num_beams": n} for rule in RULES for n in (1, 3)]
    return cases + [(name, at, rule) for name in CLASSES for at in (0, 1) for rule in rules]


def theirs(model: Any, source: list[int], settings: dict[str, Any]) -> tuple[list[int], float]:
    """The tokens that `transformers` generates, without the prompt, and the score of a beam."""
    given = torch.tensor([source])
    out = model.generate(
        given,
        attention_mask=torch.ones_like(given),
        generation_config=hf.GenerationConfig(
            max_new_tokens=LIMIT,
            do_sample=False,
            eos_token_id=1,
            pad_token_id=0,
            decoder_start_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        ),
    )
    begins = 1 if model.config.is_encoder_decoder else len(source)
    score = float(out.sequences_scores[0]) if settings.get("num_beams", 1) > 1 else 0.0
    return out.sequences[0, begins:].tolist(), score


def main() -> int:
    """Write the golden file, or compare with it."""
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    found, models = [], {}
    for name, kind in CLASSES.items():
        with tempfile.TemporaryDirectory() as made:
            Golden.load(name).write(Path(made))
            models[name] = getattr(hf, kind).from_pretrained(made, dtype=torch.float32).eval()
            models[name].generation_config = hf.GenerationConfig()
    for name, at, settings in asked():
        tokens, score = theirs(models[name], SOURCES[at], settings)
        found.append([name, at, settings, tokens, round(score, 5)])
    if "--write" in sys.argv:
        lines = ",\n".join(json.dumps(each) for each in found)
        FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    same = json.loads(FILE.read_text("utf-8")) == found
    print(f"{len(found)} cases, {'as' if same else 'NOT as'} in {FILE.name}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
