// AdaptiveReleaf: experts' estimates, mixed, and a drawn degree of optimism.

import { best, certain, drawn } from "./choices.js";

export function adaptive({ rule, encoded }) {
  const models = rule.models.map((model) => ({
    ...model,
    trees: model.trees.map((nodes) => nodes.map((node) => node.map(Math.fround))),
    ranks: model.ranks.map((ranks) => ranks?.map(Math.fround)),
  }));
  const category = (feature, value) => Math.floor(value * encoded[feature].categories);
  const clipped = (value) => Math.min(Math.max(value, 0), 1);

  return (row, among) => {
    const rounded = row.map(Math.fround), means = [], bonuses = [], chances = Array(models.length).fill(0);
    for (const action of among) [means[action], bonuses[action]] = estimate(models[action], row, rounded);
    if (rule.optimism === null) return certain(models.length, best(means, among));
    const least = rule.least_probability, floor = Math.min(least, 1 / among.length);
    for (const action of among) chances[action] = Array.isArray(least) ? least[action] : floor;
    const sure = Array.isArray(least)
      ? Math.max(among.reduce((left, action) => left - least[action], 1), 0)
      : 1 - among.length * floor;
    for (const optimism of rule.optimism) {
      const upper = means.map((mean, action) => mean + optimism * bonuses[action]);
      const equal = among.filter((action) => upper[action] === upper[best(upper, among)]);
      for (const action of equal) chances[action] += sure / (rule.optimism.length * equal.length);
    }
    return [chances, (generator) => drawn(chances, generator.unit())];
  };

  /** Estimated reward, and the bonus that a degree of optimism of 1 adds. */
  function estimate(model, row, rounded) {
    const filled = sparseColumns(model, rounded), { weights, line_weights: lines } = model;
    let effect = 0, spread = 0, additive = 0, line = 0, mean = 0;
    model.effects.forEach((effects, feature) => {
      if (effects === null) return;
      const place = category(feature, row[feature]) % effects.means.length;
      effect += effects.means[place];
      spread += effects.variances[place];
    });
    for (const [place, value] of filled) {
      additive += weights[place] * value;
      if (place < lines.length) line += lines[place] * value;
    }
    additive = clipped(model.offset + effect + additive);
    const experts = [clipped(model.offset + effect + line), additive, additive, additive, additive];
    if (model.trees.length) experts.splice(2, 3, ...forest(model, row, rounded));
    experts.forEach((expert, place) => {
      mean += model.experts[place] * expert;
    });
    spread = variance(model.covariance, filled) + spread;
    const excess = spread > model.usual_variance ? rule.eagerness * Math.log(spread / model.usual_variance) : 0;
    return [mean, Math.sqrt(spread * (1 + excess))];
  }

  /** The columns of a context that are not 0. */
  function sparseColumns(model, rounded) {
    const outside = model.ranges.filter(([low, high], feature) => !(low <= rounded[feature] && rounded[feature] <= high)).length;
    const filled = [[0, 1], [1, 0.5 * Math.min(outside, rule.most_outside)]];
    for (const [start, first, levels, second, otherLevels, width] of model.tables) {
      const [down, here, below] = spread(model, rounded, first, levels);
      if (second < 0) {
        filled.push([start + down, here], [start + down + 1, below]);
        continue;
      }
      const [across, left, right] = spread(model, rounded, second, otherLevels), corner = start + down * width + across;
      filled.push([corner, here * left], [corner + 1, here * right], [corner + width, below * left], [corner + width + 1, below * right]);
    }
    return filled.filter(([, value]) => value !== 0);
  }

  /** Column of a value in a table, its share, and the share of the next column. */
  function spread(model, rounded, feature, levels) {
    const value = rounded[feature], knots = model.knots[feature];
    if (encoded[feature].categories) return [category(feature, value), 1, 0];
    if (levels === 0) {
      const [centre, scale] = model.scales[feature], most = rule.highest;
      return [0, value < 0 ? 0 : Math.min(Math.max((value - centre) * scale, -most), most), 0];
    }
    if (value < 0) return [levels, 1, 0];
    const above = knots.findIndex((knot, level) => level > 0 && value <= knot);
    const place = above < 0 ? knots.length - 1 : above - 1 + (value - knots[above - 1]) / (knots[above] - knots[above - 1]);
    const scaled = knots.length === levels ? place : (place * (levels - 1)) / (knots.length - 1);
    const first = Math.min(Math.floor(scaled), levels - 2), share = scaled - first;
    return [first, 1 - share, share];
  }

  /** Mean over trees of the leaves, little and much shrunk, and steady. */
  function forest({ trees, ranks }, row, rounded) {
    const values = rounded.map((value, feature) => (ranks[feature] ? ranks[feature][category(feature, row[feature])] : value));
    const [little, much] = rule.shrinkage, sums = [0, 0, 0];
    for (const nodes of trees) {
      let node = nodes[0];
      while (node.length === 3) node = nodes[node[2] + (values[node[0]] > node[1] ? 1 : 0)];
      const [count, total, prior, steady] = node;
      sums[0] += (total + little * prior) / (count + little);
      sums[1] += (total + much * prior) / (count + much);
      sums[2] += steady;
    }
    return sums.map((sum) => sum / trees.length);
  }
}

function variance(covariance, filled) {
  if (!covariance.length) return 0;
  let total = 0;
  filled.forEach(([row, factor], i) => {
    total += 0.5 * covariance[row][row] * factor * factor;
    for (let j = 0; j < i; j++) {
      const [column, value] = filled[j];
      total += covariance[Math.max(row, column)][Math.min(row, column)] * value * factor;
    }
  });
  return Math.max(2 * total, 0);
}
