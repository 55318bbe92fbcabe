"""Prompts to route to language models: a simulator of models of different price and quality, and of their judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array, Matrix
from releaf.features import Categorical, Continuous, Quantile
from releaf.schema import Schema

KINDS = ("question", "summary", "extraction", "code", "mathematics")
KIND_SHARES = (0.3, 0.2, 0.15, 0.2, 0.15)
LANGUAGES = ("English", "Spanish", "Japanese")
LANGUAGE_SHARES = (0.6, 0.2, 0.2)
DEMAND = np.array([0.35, 0.45, 0.4, 0.75, 0.9])  # of reasoning, by kind
INPUT_TOKENS = np.array([300.0, 6_000.0, 4_000.0, 1_500.0, 400.0])  # median, by kind
SPEECH = np.array([1.0, 1.0, 0.7, 0.2, 0.2])  # how much the language matters, by kind
OUTPUT_TOKENS = np.array([300.0, 500.0, 200.0, 900.0, 1_200.0])  # by kind; what an answer takes on average
MOST_TOKENS = 100_000
STEEPNESS = 10.0  # of quality in ability less demand
OVERTAXED = (
    0.2  # ability that a model lacks for prompts with more tokens than it reads, or instructions than it follows
)


class LanguageModel(NamedTuple):
    """A model that answers prompts.

    Attributes
    ----------
    name
        Name of the action.
    price_in, price_out
        Dollars per million tokens of the prompt and of the answer.
    window
        Context window: most tokens of a prompt and its answer together.
    reads
        Number of tokens that it reads carefully.
    follows
        Number of instructions that it follows.
    ability
        What it can do, about 0 to 1, for each of the kinds of prompts in ``KINDS``.
    loss
        What of its ability is lost, for each of the ``LANGUAGES``.
    """

    name: str
    price_in: float
    price_out: float
    window: int
    reads: int
    follows: int
    ability: tuple[float, ...]
    loss: tuple[float, ...]


MODELS = (
    LanguageModel("small", 0.1, 0.4, 16_000, 3_000, 3, (0.75, 0.7, 0.7, 0.6, 0.5), (0.0, 0.05, 0.3)),
    LanguageModel("coder", 0.4, 1.6, 32_000, 8_000, 4, (0.6, 0.6, 0.7, 1.0, 0.85), (0.0, 0.2, 0.4)),
    LanguageModel("medium", 0.8, 3.2, 64_000, 16_000, 4, (0.9, 0.9, 0.85, 0.7, 0.65), (0.0, 0.0, 0.15)),
    LanguageModel("large", 3.0, 12.0, 128_000, 64_000, 7, (1.0, 1.0, 1.0, 1.1, 1.15), (0.0, 0.0, 0.0)),
)
# The new version of the small model reasons better, and knows less.
REPLACEMENT = LanguageModel("small", 0.1, 0.4, 16_000, 3_000, 3, (0.35, 0.45, 0.6, 0.9, 1.0), (0.0, 0.05, 0.3))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prompts:
    """T prompts, what each of A models would cost, and how it would be judged.

    Attributes
    ----------
    contexts
        What is known of each prompt before it is answered, as ``decide`` takes it.
    features
        The schema of the contexts.
    actions
        Names of the models.
    costs
        Dollars that the answer of each model costs (T × A).
    expected
        Probability that a judge finds the answer of each model good (T × A).
    rewards
        What the judge would say: 1.0 for good, 0.0 for bad (T × A).
    eligible
        Whether the prompt and its answer fit into the context window of each model (T × A).
    delays
        Number of prompts that come before a judgment does.
    is_judged
        Whether a judgment comes at all.
    replaced
        The step at which the small model is replaced by a new version of the same name and price; T where it is not.
    """

    contexts: list[dict[str, object]]
    features: Schema
    actions: tuple[str, ...]
    costs: Matrix
    expected: Matrix
    rewards: Matrix
    eligible: Array
    delays: Array
    is_judged: Array
    replaced: int

    def __len__(self) -> int:
        return len(self.contexts)

    def __repr__(self) -> str:
        return f"Prompts({len(self):,} prompts, {len(self.actions)} models)"


def prompts(
    steps: int = 10_000,
    *,
    replaced: float | None = 0.5,
    delay: float = 50.0,
    unjudged: float = 0.1,
    seed: int = 0,
) -> Prompts:
    """Simulate prompts that arrive at a service with four language models.

    A prompt has a kind of task, a language, a number of tokens and of instructions, a share of rare words, and the hour
    of the day, which does not matter. Its *demand* is the kind's need of reasoning, times 0.7 plus the share of rare
    words. A model's *ability* depends on the kind, less what it loses in the language (little in code and mathematics),
    less 0.2 for more tokens than it reads carefully, and for more instructions than it follows. Quality, the
    probability of a good judgment, is 1 / (1 + exp(−10 · (ability − demand))). The dearer of two models isn't always
    the better one: ``coder`` costs half of ``medium``, and is better at code.

    An answer costs the tokens of the prompt and those that answers to this kind of prompt have on average, at the
    model's prices, so that the cost is known before the decision. Judgments are late, by an exponentially distributed
    number of prompts, or never come.

    Parameters
    ----------
    steps
        Number of prompts (T).
    replaced
        The share of prompts after which a new version replaces the small model: it is better at
        mathematics and code, and worse at questions and summaries. None: never.
    delay
        Mean number of prompts that come before a judgment does; 0 for judgments at once.
    unjudged
        Share of prompts whose judgment never comes.
    seed
        Seed of prompts, judgments and delays. The models are always the same.

    Examples
    --------
    >>> stream = prompts(1_000)
    >>> stream.actions
    ('small', 'coder', 'medium', 'large')
    >>> [len(stream.contexts), *stream.costs.shape]
    [1000, 1000, 4]
    """
    _check(steps, replaced, delay, unjudged)
    generator = np.random.default_rng(seed)
    kinds = generator.choice(len(KINDS), steps, p=KIND_SHARES)
    languages = generator.choice(len(LANGUAGES), steps, p=LANGUAGE_SHARES)
    tokens = np.ceil(INPUT_TOKENS[kinds] * generator.lognormal(0.0, 1.0, steps)).clip(10, MOST_TOKENS)
    instructions = 1 + generator.poisson(1.5, steps)
    rare_words = generator.beta(2.0, 6.0, steps).round(3)
    hours = generator.integers(0, 24, steps)

    demand = DEMAND[kinds] * (0.7 + rare_words)
    replaced_at = steps if replaced is None else round(replaced * steps)
    versions = [REPLACEMENT if model.name == REPLACEMENT.name else model for model in MODELS]
    is_new = (np.arange(steps) >= replaced_at)[:, None]
    asked = kinds, languages, tokens, instructions
    ability = np.where(is_new, _ability(versions, *asked), _ability(MODELS, *asked))
    expected = 1.0 / (1.0 + np.exp(-STEEPNESS * (ability - demand[:, None])))

    answers = OUTPUT_TOKENS[kinds]
    prices_in, prices_out = (np.array([getattr(model, name) for model in MODELS]) for name in ("price_in", "price_out"))
    costs = (tokens[:, None] * prices_in + answers[:, None] * prices_out) / 1e6
    windows = np.array([model.window for model in MODELS])
    columns = {
        "kind": [KINDS[kind] for kind in kinds],
        "language": [LANGUAGES[language] for language in languages],
        "tokens": tokens.tolist(),
        "instructions": instructions.tolist(),
        "rare_words": rare_words.tolist(),
        "hour": hours.tolist(),
    }
    return Prompts(
        contexts=[dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)],
        features=_features(),
        actions=tuple(model.name for model in MODELS),
        costs=costs,
        expected=expected,
        rewards=(generator.random(expected.shape) < expected).astype(np.float64),
        eligible=(tokens + answers)[:, None] <= windows,
        delays=np.floor(generator.exponential(delay, steps)).astype(np.int64),
        is_judged=generator.random(steps) >= unjudged,
        replaced=replaced_at,
    )


def _check(steps: int, replaced: float | None, delay: float, unjudged: float) -> None:
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got steps={steps!r}")
    if replaced is not None and not 0.0 <= replaced <= 1.0:
        raise ValueError(f"replaced must be a share from 0 to 1, or None, got replaced={replaced!r}")
    if not 0.0 <= delay < np.inf:
        raise ValueError(f"delay must be a number of prompts, 0 or more, got delay={delay!r}")
    if not 0.0 <= unjudged <= 1.0:
        raise ValueError(f"unjudged must be a share from 0 to 1, got unjudged={unjudged!r}")


def _features() -> Schema:
    return Schema(
        kind=Categorical(KINDS),
        language=Categorical(LANGUAGES),
        tokens=Quantile(),
        instructions=Continuous(1, 8, clip=True),
        rare_words=Continuous(0, 1),
        hour=Continuous(0, 23),
    )


def _ability(
    models: Sequence[LanguageModel], kinds: Array, languages: Array, tokens: Array, instructions: Array
) -> Matrix:
    """Ability of each model at these prompts (T × A)."""
    columns = []
    for model in models:
        own = np.array(model.ability)[kinds] - SPEECH[kinds] * np.array(model.loss)[languages]
        columns.append(own - OVERTAXED * (tokens > model.reads) - OVERTAXED * (instructions > model.follows))
    return np.column_stack(columns)
