"""The paper's theorems and lemmas as functions: regret bounds, accuracy of estimates, control numbers.

Regret is what the learner loses against an oracle that knows the best action for every context (eq. 1),
split into R_O, lost while exploring, and R_I, lost while exploiting. All bounds hold for arbitrary
contexts; R_I and instantaneous bounds with probability 1 - δ, R_O with certainty. They assume
``control_divisor=1``.

How Theorem 1 follows from the lemmas of the appendix:

1. A cell that an exploitation relies on holds enough rewards (:func:`control_number`) that its mean is inaccurate
   with probability :func:`inaccuracy_bound` at most.
2. The union over steps, actions and tuples of features: with probability :func:`correctness_bound` ≥ 1 - δ, every
   action's relevant features are among the candidates in all exploitations (the event CORR_T).
3. Then the estimate of every action is within :func:`estimate_accuracy`, 8·L·s, of its expected reward.
4. The action with the highest estimate therefore loses :func:`instantaneous_bound` at most: the inaccuracy of its own
   estimate, and that of the best action's.

Where the paper slips, the functions say what they compute instead:

- Theorems 1, 2 and 4 and Lemma ``corr`` print D inside the logarithm; the algorithm's control number has
  D* = C(D-1, 2γ-1) there, and so have these functions.
- The end of the proof of Theorem 5 prints g(d) where it solves for ρ. :func:`balanced_rho` is that solution.
- Theorem 4 prints its bound on R_I without the factor D that its proof (by Theorem 1) has.
- Theorem 4 claims an instantaneous regret of at most ε. Its proof makes every *estimate* accurate to ε, which bounds
  the regret of a decision by 16·L·s (Theorem 1); see :func:`starting_level`.
- Lemma ``estimatedrelhigh`` names a tuple w without saying which; see :func:`tuple_estimate_accuracy`.
- The proof of Lemma ``corrhigh`` takes the union of the complements of INACC where it means INACC, and prints the
  number of 2·D_rel-tuples for that of D_rel-tuples that contain ℛ(a).
"""

from releaf.theory.lemmas import (
    correctness_bound,
    estimate_accuracy,
    general_instantaneous_bound,
    inaccuracy_bound,
    instantaneous_bound,
    tuple_estimate_accuracy,
)
from releaf.theory.partition import interval_lengths
from releaf.theory.regret import (
    RegretBounds,
    balanced_rho,
    control_number,
    epsilon_optimal_bounds,
    exploitation_bound,
    exploration_bound,
    general_bounds,
    lipschitz_estimate,
    regret_exponent,
    starting_level,
)

__all__ = [
    "RegretBounds",
    "balanced_rho",
    "control_number",
    "correctness_bound",
    "epsilon_optimal_bounds",
    "estimate_accuracy",
    "exploitation_bound",
    "exploration_bound",
    "general_bounds",
    "general_instantaneous_bound",
    "inaccuracy_bound",
    "instantaneous_bound",
    "interval_lengths",
    "lipschitz_estimate",
    "regret_exponent",
    "starting_level",
    "tuple_estimate_accuracy",
]
