"""Extremely randomised trees in plain Python, grown by recursion: the reference for the kernels of AdaptiveReleaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.core.adaptive import trees as rules

WORD = 2**64 - 1


def mixed(word: int) -> int:
    """The finaliser of splitmix64."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


class SplitMix:
    """The generator splitmix64."""

    def __init__(self, state: int) -> None:
        self.state = state & WORD

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        return mixed(self.state)

    def below(self, limit: int) -> int:
        return self.word() % limit

    def unit(self) -> float:
        return (self.word() >> 11) * 2.0**-53


class PlainTree:
    """A node and all below it: two smaller trees, or a leaf with the number and the sum of its rewards."""

    def __init__(
        self, forest: PlainForest, rows: list[int], prior: float, base: float, share: float, choice: list[int]
    ) -> None:
        rewards = forest.rewards[rows]
        self.count, self.sum, self.prior = float(len(rows)), float(rewards.sum()), prior
        self.steady = base + share * rewards.mean()
        self.rows = rows  # in the order in which the next tree finds them
        self.feature: int | None = None
        if len(rows) >= 2 * forest.least_leaf and rewards.min() < rewards.max():
            self.feature, self.threshold, score = forest.best_split(rows, choice)
        if self.feature is not None:
            estimate = (self.sum + rules.SHRINKAGE * prior) / (self.count + rules.SHRINKAGE)
            gain = score - self.sum**2 / self.count
            share = max(0.0, 1.0 - rules.CHANCE * rewards.var() / max(gain, rules.GRAIN**2))
            base = self.steady - share * rewards.mean()
            below, above = forest.parted(rows, self.feature, self.threshold)
            self.left, self.right = (PlainTree(forest, part, estimate, base, share, choice) for part in (below, above))
            self.rows = self.left.rows + self.right.rows

    def leaf_of(self, values: Any) -> PlainTree:
        if self.feature is None:
            return self
        return (self.right if values[self.feature] > self.threshold else self.left).leaf_of(values)

    def mean(self, strength: float) -> float:
        """Mean reward of a leaf, shrunk to the estimate above it."""
        return float((self.sum + strength * self.prior) / (self.count + strength))


class PlainForest:
    """All trees of an action. ``columns`` are the rows as trees see them (rows by features)."""

    def __init__(self, columns: Any, rewards: Any, generator: SplitMix, candidates: int, least_leaf: int) -> None:
        self.columns = columns.astype(np.float32)
        self.rewards = np.floor(rewards * rules.GRAINS + 0.5) / rules.GRAINS
        self.generator, self.candidates, self.least_leaf = generator, candidates, least_leaf
        self.trees: list[PlainTree] = []
        rows = list(range(len(rewards)))
        for _ in range(rules.TREE_COUNT):
            choice = list(range(columns.shape[1]))
            mean = float(self.rewards.mean())
            self.trees.append(PlainTree(self, rows, mean, mean, 0.0, choice))
            rows = self.trees[-1].rows

    def best_split(self, rows: list[int], choice: list[int]) -> tuple[int | None, Any, float]:
        """The best of one random threshold for each of some random features that differ among the rows."""
        best, tried = -1.0, 0
        found: tuple[int | None, Any, float] = None, np.float32(0.0), best
        for drawn in range(len(choice)):
            other = drawn + self.generator.below(len(choice) - drawn)
            choice[drawn], choice[other] = choice[other], choice[drawn]
            values, rewards = self.columns[rows, choice[drawn]], self.rewards[rows]
            low, high = self.bounds(values)
            if low == high:
                continue
            tried += 1
            threshold = np.float32(float(low) + self.generator.unit() * float(high - low))
            if threshold >= high:
                threshold = low
            below, above = rewards[values <= threshold], rewards[values > threshold]
            if min(len(below), len(above)) >= self.least_leaf:
                score = sum(float(part.sum()) ** 2 / len(part) for part in (below, above))
                if score > best:
                    best, found = score, (choice[drawn], threshold, score)
            if tried == self.candidates:
                break
        return found

    def bounds(self, values: Any) -> tuple[Any, Any]:
        """The values of two random rows; after some draws of equal values, the lowest and the highest one."""
        for _ in range(rules.DRAWS):
            one, other = (values[self.generator.below(len(values))] for _ in range(2))
            if one != other:
                return min(one, other), max(one, other)
        return values.min(), values.max()

    def parted(self, rows: list[int], feature: int, threshold: Any) -> tuple[list[int], list[int]]:
        """Rows at most at the threshold and rows above, each swapped with the last row not looked at where above."""
        rows, left, right = list(rows), 0, len(rows) - 1
        while left <= right:
            if self.columns[rows[left], feature] <= threshold:
                left += 1
            else:
                rows[left], rows[right] = rows[right], rows[left]
                right -= 1
        return rows[:left], rows[left:]

    def predict(self, values: Any) -> tuple[float, float, float]:
        """Mean over trees of the leaves' means, little and much shrunk, and of their steady estimates."""
        leaves = [tree.leaf_of(values) for tree in self.trees]
        sharp, smooth = (
            sum(leaf.mean(strength) for leaf in leaves) / len(leaves)
            for strength in (rules.SHARPNESS, rules.SMOOTHNESS)
        )
        return sharp, smooth, sum(min(max(leaf.steady, 0.0), 1.0) for leaf in leaves) / len(leaves)

    def learn(self, values: Any, reward: float) -> None:
        for tree in self.trees:
            leaf = tree.leaf_of(values)
            leaf.count += 1.0
            leaf.sum += reward
