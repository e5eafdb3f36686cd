"""A byte-level BPE tokenizer in which every word of the closed world is one token.

Any text encodes, since the alphabet is all 256 bytes. A space is a token of its
own, so that a word is the same token wherever it stands: the model copies words
from the prompt, and a copy is easiest to learn when both ends are one token.
"""

import functools
import json
import random
from pathlib import Path
from typing import Any

from jinja2 import Environment, Template
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.checkpoints.training import skills
from tests.checkpoints.training.vocabulary import (
    MARKUP_TOKENS,
    SPECIAL_TOKENS,
    all_words,
)

VOCABULARY_SIZE = 1280
CORPUS_SEED = 7
CORPUS_PROMPTS_PER_SKILL = 250
WORD_REPEATS = 150
SPLIT_PATTERN = (
    r"""\\[nrt"\\]|(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}\\]+|\s*[\r\n]+|\s+(?!\S)|\s+|\\"""
)
CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8").rstrip("\n")


@functools.cache
def _template() -> Template:
    environment = Environment(autoescape=False)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(CHAT_TEMPLATE)


def render_prompt(example: skills.Example) -> str:
    """The prompt as the host renders it, one placeholder an image."""
    return _template().render(messages=example.messages, tools=example.tools, add_generation_prompt=True)


def _corpus() -> list[str]:
    """The same number of prompts of each skill, and each word often enough to win a merge.

    It does not depend on the skills' training weights, so that changing those
    keeps the vocabulary.
    """
    rng = random.Random(CORPUS_SEED)
    texts: list[str] = []
    for name in skills.SKILLS:
        for _ in range(CORPUS_PROMPTS_PER_SKILL):
            example = skills.draw(rng, name)
            text = render_prompt(example) + example.answer
            for token in SPECIAL_TOKENS + MARKUP_TOKENS:
                text = text.replace(token, " ")
            texts.append(text)
    for word in all_words():
        texts += [word] * WORD_REPEATS
    return texts


def train_tokenizer() -> Tokenizer:
    """Train the tokenizer; the same code gives the same vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=list(SPECIAL_TOKENS + MARKUP_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    return tokenizer


def write_tokenizer(directory: Path) -> int:
    """Write tokenizer.json, its config and the chat template; return the vocabulary size."""
    tokenizer = train_tokenizer()
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    for token in state["added_tokens"]:
        token["special"] = token["content"] not in MARKUP_TOKENS
    fields = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32768,
        "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {
            str(token["id"]): {field: token[field] for field in fields} for token in state["added_tokens"]
        },
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False), "utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1), "utf-8")
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, "utf-8")
    return tokenizer.get_vocab_size()
