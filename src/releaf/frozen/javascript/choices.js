// The random generator, and ways to choose: each gives the probability of every action, and a function that draws one.

const MASK = (1n << 64n) - 1n;

/** The random generator splitmix64: a seed is its state. */
export class Generator {
  constructor(state) {
    this.state = state;
  }
  word() {
    this.state = (this.state + 0x9e3779b97f4a7c15n) & MASK;
    let mixed = ((this.state ^ (this.state >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    mixed = ((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return mixed ^ (mixed >> 31n);
  }
  below(count) {
    return Number(this.word() % BigInt(count));
  }
  unit() {
    return Number(this.word() >> 11n) * 2 ** -53;
  }
}

export const certain = (count, index) => [Array.from({ length: count }, (_, action) => +(action === index)), () => index];

export function uniform(count, among) {
  const chances = Array(count).fill(0);
  for (const action of among) chances[action] = 1 / among.length;
  return [chances, (generator) => among[generator.below(among.length)]];
}

/** The action with the highest score, the first on ties. */
export const best = (scores, among) => among.reduce((leader, action) => (scores[action] > scores[leader] ? action : leader));

export function greedy(count, leader, among, exploration) {
  const chances = Array(count).fill(0);
  for (const action of among) chances[action] = exploration / among.length;
  chances[leader] = 1 - (exploration * (among.length - 1)) / among.length;
  return [chances, (generator) => (generator.unit() < exploration ? among[generator.below(among.length)] : leader)];
}

/** The action at which the sum of the probabilities exceeds a number. */
export function drawn(chances, left) {
  let last = 0;
  for (let action = 0; action < chances.length; action++) {
    if (chances[action] <= 0) continue;
    last = action;
    left -= chances[action];
    if (left < 0) break;
  }
  return last;
}
