// Rules: functions of an encoded context and the eligible actions to probabilities and a draw.

import { adaptive } from "./adaptive.js";
import { best, certain, greedy, uniform } from "./choices.js";
import { releaf } from "./releaf.js";

export const RULES = {
  random: ({ actions }) => (row, among) => uniform(actions.length, among),
  ranking: ({ actions, rule }) => (row, among) => certain(actions.length, rule.order.find((action) => among.includes(action))),
  "epsilon-greedy": ({ actions, rule }) => (row, among) => {
    const untried = rule.untried.find((action) => among.includes(action));
    return untried === undefined ? greedy(actions.length, best(rule.means, among), among, rule.exploration) : certain(actions.length, untried);
  },
  "linear-epsilon-greedy": (policy) => (row, among) => {
    const values = columns(policy, row), means = policy.rule.weights.map((weights) => dot(weights, values));
    return greedy(means.length, best(means, among), among, policy.rule.exploration);
  },
  linucb: (policy) => (row, among) => linucb(policy.rule, columns(policy, row), among),
  releaf,
  adaptive,
};

/** Columns of a linear model: the intercept, numbers, indicators of missing numbers, and one-hot categories. */
function columns({ rule, encoded }, row) {
  const values = rule.intercept ? [1] : [];
  encoded.forEach(({ categories, missing }, feature) => {
    const value = row[feature];
    if (categories) for (let place = 0; place < categories; place++) values.push(+(place === Math.floor(value * categories)));
    else if (missing) values.push(Math.max(value, 0), +(value < 0));
    else values.push(value);
  });
  return values;
}

function dot(one, other) {
  let total = 0;
  for (let place = 0; place < one.length; place++) total += one[place] * other[place];
  return total;
}

function linucb({ weights, inverse, alpha, taken }, values, among) {
  const filled = values.flatMap((value, place) => (value ? [place] : []));
  const bounds = weights.map((own, action) => {
    let spread = 0;
    for (const i of filled) {
      let push = 0;
      for (const j of filled) push += inverse[action][Math.max(i, j)][Math.min(i, j)] * values[j];
      spread += push * values[i];
    }
    return dot(own, values) + alpha * Math.sqrt(Math.max(spread, 0));
  });
  const first = (one, other) => bounds[one] > bounds[other] || (bounds[one] === bounds[other] && taken[one] < taken[other]);
  return certain(weights.length, among.reduce((leader, action) => (first(action, leader) ? action : leader)));
}
