"""`ReleafPolicy`: a releaf policy that implements River's protocol of contextual bandits.

>>> from releaf.river import ReleafPolicy
>>> policy = ReleafPolicy(seed=0)
>>> context = {"age": 61, "dose": 0.3, "smoker": True}
>>> arm = policy.pull(["wait", "treat"], context=context)
>>> policy.update(arm, context, 1.0)
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from river import bandit

from releaf.datetimes import DateTime
from releaf.decision import ActionName, Decision
from releaf.feature_dicts import Declared
from releaf.features import Boolean, Quantile
from releaf.policies.adaptive import AdaptiveReleaf
from releaf.policy import Policy
from releaf.schema import Schema

__all__ = ["ReleafPolicy"]

MAX_PENDING_PULLS = 10_000  # pulls without an update that are kept
NO_CONTEXT = "no context"  # name of the constant feature of problems without contexts


class ReleafPolicy(bandit.base.ContextualPolicy):
    """A releaf policy as a River bandit policy, with ``pull`` and ``update``.

    The learner is created with the first pull or update. Its actions are the arms; new arms are added when they appear.
    Its features are those of the first context and of ``schema``. A feature that a later context lacks is missing; new
    features are ignored, as River's models may do.

    ``update`` accepts the reward of any arm, pulled or not, immediately or later. A reward of a pulled arm is learnt
    only if the learner wants it: :class:`releaf.Releaf` learns from explorations only, unless ``observe="always"``;
    :class:`releaf.AdaptiveReleaf` with a ``label_budget`` skips rewards that it does not need. A policy that can't
    learn from logs, such as :class:`releaf.ContextualZooming`, ignores the rewards of arms that it did not choose.

    If the chosen arm can't be pulled, the policy takes the best available arm when it exploits, and a random one when
    it explores.

    Parameters
    ----------
    policy
        A policy class of releaf, or a callable that takes actions, features, ``seed`` and the options. A policy that
        needs the rewards of all actions raises.
    schema
        Features that can't be inferred, as a mapping from names or a :class:`releaf.Schema`. Numbers become
        :class:`releaf.Quantile` features, dates :class:`releaf.DateTime` ones, and booleans are recognised; text needs
        a schema, since its values must be known beforehand:
        ``schema={"country": releaf.Categorical("DE", "TR", missing=True)}``.
    reward_obj, reward_scaler, burn_in
        As for all of River's policies. Rewards must be in [0, 1], or in the policy's ``reward_range``; a reward scaler
        is applied before.
    seed
        Seed of the learner.
    **options
        Further arguments of the policy, such as ``label_budget=500``.

    Examples
    --------
    River's evaluation works with it, here the replay of a log:

    >>> import random, releaf
    >>> from river import bandit
    >>> rng = random.Random(0)
    >>> log = []
    >>> for _ in range(4_000):
    ...     context, arm = {"hour": rng.uniform(0, 24)}, rng.choice(["news", "games"])
    ...     log.append((["news", "games"], context, arm, (context["hour"] < 12) == (arm == "news")))
    >>> total, pulls = bandit.evaluate_offline(ReleafPolicy(seed=0), log)
    >>> total.get() / pulls > 0.95
    True
    """

    def __init__(
        self,
        policy: Callable[..., Policy] = AdaptiveReleaf,
        schema: Mapping[str, Declared] | Schema | None = None,
        reward_obj: Any = None,
        reward_scaler: Any = None,
        burn_in: int = 0,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(reward_obj=reward_obj, reward_scaler=reward_scaler, burn_in=burn_in)
        if not callable(policy):
            raise TypeError(f"policy must be a policy class of releaf, or another callable, got {policy!r}")
        self.policy = policy
        self.schema = schema
        self.seed = seed
        self.options = options
        self._rng = random.Random(seed)
        self._learner: Policy | None = None
        self._pulled: OrderedDict[tuple[Any, Any], Decision] = OrderedDict()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"seed": 42}
        yield {"seed": 42, "burn_in": 2, "label_budget": 100}

    def __repr__(self) -> str:
        """A table of the arms, or the parameters if there are no arms yet."""
        if self._rewards:
            return str(super().__repr__())
        given = {"seed": self.seed, **self.options}
        maker = getattr(self.policy, "__name__", self.policy)
        return f"{type(self).__name__}({maker}, {', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def learner(self) -> Any:
        """The releaf learner; None before the first arm."""
        return self._learner

    def pull(self, arm_ids: Iterable[Any], context: Mapping[Any, Any] | None = None) -> Any:
        """Choose an arm.

        Parameters
        ----------
        arm_ids
            The arms that can be pulled.
        context
            The features and their values; None without features.
        """
        arms = list(arm_ids)
        if not arms:
            raise ValueError("arm_ids is empty: expected at least one arm")
        return super().pull(arms, context)

    def _pull(self, arm_ids: list[Any], context: Mapping[Any, Any] | None) -> Any:
        learner = self._ensure_learner(arm_ids, context)
        choice = learner.decide(_values(context, learner.schema))
        arm = choice.action if choice.action in arm_ids else self._best_of(arm_ids, choice, learner.actions)
        key = (self._key(context), arm)
        if key in self._pulled:
            learner.discard_pending(self._pulled.pop(key))
        self._pulled[key] = choice
        if len(self._pulled) > MAX_PENDING_PULLS:
            learner.discard_pending(self._pulled.popitem(last=False)[1])
        return arm

    def update(self, arm_id: Any, context: Any, *reward_args: Any, **reward_kwargs: Any) -> None:
        """Learn the reward of an arm.

        Parameters
        ----------
        arm_id
            The arm, pulled here or elsewhere.
        context
            The context it was pulled in. May be omitted without features, as ``river.bandit.evaluate`` does.
        reward_args, reward_kwargs
            The reward, one number.
        """
        if not reward_args and not reward_kwargs:
            context, reward_args = None, (context,)
        if len(reward_args) != 1 or reward_kwargs:
            raise ValueError(f"the reward must be one number, got {reward_args!r} {reward_kwargs!r}")
        reward = reward_args[0]
        if self.reward_scaler:
            self.reward_scaler._update(y=reward)
            reward = self.reward_scaler.func(reward)
        self._learn(arm_id, context, reward)  # raises if the reward is out of range, before any counter changes
        self._rewards[arm_id].update(reward)
        self._counts[arm_id] += 1
        self._n += 1

    # --- the learner --------------------------------------------------------------------------------------

    def _ensure_learner(self, arms: list[Any], context: Mapping[Any, Any] | None) -> Policy:
        """Create the learner, or add new arms to it."""
        learner = self._learner
        if learner is None:
            learner = self.policy(arms, self._schema_of(context), seed=self.seed, **self.options)
            if learner.wants_all:
                raise ValueError(
                    f"{type(learner).__name__} needs the rewards of all actions, which River does not provide: "
                    "expected a policy that learns from the reward of its action"
                )
            self._learner = learner
        for arm in arms:
            if arm not in learner.actions:
                learner.add_action(arm)
        return learner

    def _schema_of(self, context: Mapping[Any, Any] | None) -> Schema:
        given = self.schema
        features: dict[str, Declared] = dict(given.inputs if isinstance(given, Schema) else given or {})
        for name, value in (context or {}).items():
            if str(name) in features:
                continue
            if isinstance(value, str | bytes):
                raise ValueError(
                    f"feature {str(name)!r} is {value!r}: text needs a schema, "
                    f"such as schema={{{str(name)!r}: releaf.Categorical({value!r}, …, missing=True)}}"
                )
            features[str(name)] = _guess(value)
        return Schema(features or {NO_CONTEXT: Boolean()})

    def _best_of(self, arms: list[Any], choice: Decision, actions: tuple[ActionName, ...]) -> Any:
        if choice.estimates is None:
            return self._rng.choice(arms)
        estimates = dict(zip(actions, choice.estimates, strict=True))
        return max(arms, key=lambda arm: estimates[arm])

    @staticmethod
    def _key(context: Mapping[Any, Any] | None) -> Any:
        return frozenset((context or {}).items())

    def _learn(self, arm: Any, context: Mapping[Any, Any] | None, reward: Any) -> None:
        learner, key = self._ensure_learner([arm], context), (self._key(context), arm)
        if learner.observation_mode == "never":
            return
        choice = self._pulled.get(key)
        if choice is None:
            if learner.traits.learns_from_logs:
                learner.observe(_values(context, learner.schema), arm, float(reward))
            return
        if choice.wants_reward and (arm == choice.action or learner.traits.learns_from_logs):
            learner.learn(choice, float(reward), arm)
        learner.discard_pending(self._pulled.pop(key))


def _guess(value: Any) -> Declared:
    """The feature of a value that is no text."""
    if isinstance(value, date):
        return DateTime(missing=True)
    is_boolean = isinstance(value, bool) or type(value).__name__ == "bool_"
    return Boolean(missing=True) if is_boolean else Quantile(missing=True)


def _values(context: Mapping[Any, Any] | None, schema: Schema) -> dict[str, Any]:
    """Values of the features; None for those that the context lacks."""
    given = {NO_CONTEXT: False} | {str(name): value for name, value in (context or {}).items()}
    return {name: given.get(name) for name in schema.inputs}
