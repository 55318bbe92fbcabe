// RELEAF: explores actions with too few rewards in a cell of the context, else takes the highest estimate.

import { best, uniform } from "./choices.js";
import { firstAbove } from "./encoding.js";

export function releaf({ rule, encoded, actions }) {
  const { partitions, candidates } = rule;
  const contained = rule.tuples.map(({ features }) =>
    candidates.flatMap((candidate, place) => (candidate.every((feature) => features.includes(feature)) ? [place] : [])));
  const known = rule.tuples.map(({ cells }) => new Map(cells.map((cell) => [cell[0], cell])));
  const empty = Array(1 + 2 * actions.length).fill(0);

  function leafOf(feature, value) {
    if (value < 0) return partitions[feature].lengths.length - 1;
    const { categories } = encoded[feature];
    return categories ? Math.floor(value * categories) : firstAbove(partitions[feature].borders, value, false);
  }

  /** Estimates of an action by its relevant candidate; by each, of which one is drawn, where there is none. */
  function estimates(cells, lengths, action) {
    const count = 1 + 2 * action, sum = count + 1, members = candidates.map(() => []);
    cells.forEach((cell, tuple) => contained[tuple].forEach((candidate) => members[candidate].push(cell)));
    let relevant = -1, smallest = 1e300;
    candidates.forEach((candidate, place) => {
      const means = members[place].map((cell) => cell[sum] / cell[count]);
      const variation = Math.max(...means) - Math.min(...means);
      const limit = rule.limit * Math.max(...candidate.map((feature) => lengths[feature]));
      if (variation <= limit && variation < smallest) [relevant, smallest] = [place, variation];
    });
    return (relevant < 0 ? members : [members[relevant]]).map((own) => {
      if (own.length === 1) return own[0][sum] / own[0][count];
      let weighted = 0, total = 0;
      for (const cell of own) [weighted, total] = [weighted + (cell[sum] / cell[count]) * cell[count], total + cell[count]];
      return weighted / total;
    });
  }

  return (row, among) => {
    const leaves = row.map((value, feature) => leafOf(feature, value)), short = new Set();
    const cells = rule.tuples.map(({ features }, tuple) => {
      let place = 0, need = 0;
      for (const feature of features) {
        place = place * partitions[feature].lengths.length + leaves[feature];
        need = Math.max(need, rule.control * partitions[feature].weights[leaves[feature]]);
      }
      const cell = known[tuple].get(place) ?? empty;
      for (const action of among) if (cell[1 + 2 * action] < need) short.add(action);
      return cell;
    });
    if (short.size) return uniform(actions.length, among.filter((action) => short.has(action)));
    const lengths = leaves.map((leaf, feature) => partitions[feature].lengths[leaf]);
    const values = actions.map((_, action) => (among.includes(action) ? estimates(cells, lengths, action) : []));
    const chances = values.map((own, action) => own.reduce((sum, value) => sum + among.reduce((chance, other) =>
      other === action ? chance : (chance * values[other].filter((one) => one < value || (one === value && other > action)).length) / values[other].length, 1 / own.length), 0));
    return [chances, (generator) => best(values.map((own) => (own.length > 1 ? own[generator.below(own.length)] : own[0])), among)];
  };
}
