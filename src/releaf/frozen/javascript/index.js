// Evaluator of frozen policies: decides by a policy that releaf exported. No dependencies; a browser, node, deno or bun.
//
//   const policy = readPolicy(await (await fetch("policy.json")).text());
//   const decision = policy.decide({ age: 41, dose: 0.5 }, { seed: 7 });
//   decision.action, decision.probability

import { Generator } from "./choices.js";
import { encoder } from "./encoding.js";
import { RULES } from "./rules.js";
import { checksum, shown, tuple } from "./values.js";

const VERSION = 1; // of the format
const MOST_SEED = (1n << 64n) - 1n;

/** A file that is no frozen policy which this evaluator can read. */
export class PolicyFileError extends Error {
  name = "PolicyFileError";
}

/** Read a frozen policy from its text, or from the parsed JSON. */
export function readPolicy(content, name = "the policy") {
  let policy = content;
  if (typeof content === "string") {
    try {
      policy = JSON.parse(content);
    } catch (error) {
      throw new PolicyFileError(`${name} is not JSON, or not complete: ${error.message}`);
    }
  }
  if (policy === null || typeof policy !== "object" || policy.format !== "releaf-policy")
    throw new PolicyFileError(`${name} is no frozen policy: expected a file that releaf's export wrote`);
  if (policy.version !== VERSION)
    throw new PolicyFileError(`${name} has version ${shown(policy.version)} of the format: ` +
      `this evaluator reads version ${VERSION}; update the evaluator`);
  const { checksum: written, ...rest } = policy;
  if (written !== checksum(rest)) throw new PolicyFileError(`${name} is damaged: its checksum does not match; export it again`);
  return new FrozenPolicy(policy);
}

/** A policy as it was when it was exported: it decides, and learns nothing. */
export class FrozenPolicy {
  constructor(policy) {
    this.document = policy;
    this.actions = policy.actions;
    this.features = policy.features.map((feature) => feature.name);
    this.encoders = policy.features.map(encoder);
    if (!Object.hasOwn(RULES, policy.rule.kind))
      throw new PolicyFileError(`unknown rule ${shown(policy.rule.kind)}: update the evaluator`);
    this.rule = RULES[policy.rule.kind](policy);
  }

  /** Choose an action: the same for the same context, seed and eligible actions. */
  decide(context, { seed, eligible } = {}) {
    seed ??= Number(crypto.getRandomValues(new BigUint64Array(1))[0] >> 11n);
    const state = typeof seed === "bigint" ? seed : Number.isSafeInteger(seed) ? BigInt(seed) : null;
    if (state === null || state < 0n || state > MOST_SEED)
      throw new RangeError(`seed must be a whole number from 0 to 2**64 - 1, got seed=${shown(seed)}`);
    const [probabilities, draw] = this.apply(context, eligible);
    const index = draw(new Generator(state));
    return { action: this.actions[index], index, probability: probabilities[index], probabilities, seed };
  }

  /** Probability of each action in a context. */
  probabilities(context, { eligible } = {}) {
    return this.apply(context, eligible)[0];
  }

  apply(context, eligible) {
    const among = this.eligible(eligible);
    return this.rule(this.encode(context), among);
  }

  eligible(eligible) {
    if (eligible == null) return this.actions.map((_, index) => index);
    if (!Array.isArray(eligible)) throw new TypeError(`eligible must be a sequence of action names, got ${shown(eligible)}`);
    const given = new Set();
    for (const action of eligible) {
      if (!this.actions.includes(action))
        throw new RangeError(`eligible names an unknown action ${shown(action)}: the actions are ${tuple(this.actions)}`);
      if (given.has(action)) throw new RangeError(`eligible names ${shown(action)} twice: expected each action once`);
      given.add(action);
    }
    if (!given.size) throw new RangeError(`eligible names no action: expected at least one of ${tuple(this.actions)}`);
    return this.actions.flatMap((action, index) => (given.has(action) ? [index] : []));
  }

  /** Encode a context as numbers in [0, 1], -1 for a missing number, as releaf.Schema does. */
  encode(context) {
    return this.ordered(context).flatMap((value, index) => this.encoders[index](value));
  }

  ordered(context) {
    const names = this.features;
    if (context === null || typeof context !== "object")
      throw new TypeError(`context must be a sequence or a mapping, got ${shown(context)}`);
    if (!Array.isArray(context)) {
      const lacking = names.filter((name) => !Object.hasOwn(context, name));
      const unknown = Object.keys(context).filter((name) => !names.includes(name));
      const parts = [lacking.length && `lacks ${lacking.map(shown).join(", ")}`, unknown.length && `has unknown ${unknown.map(shown).join(", ")}`];
      if (lacking.length || unknown.length)
        throw new RangeError(`context ${parts.filter(Boolean).join(" and ")}; the features are ${names.join(", ")}`);
      return names.map((name) => context[name]);
    }
    if (context.length !== names.length) {
      const lacking = names.slice(context.length).map(shown).join(", ");
      throw new RangeError(`context has ${context.length} values, the schema has ${names.length}${lacking && ` (missing: ${lacking})`}`);
    }
    return context;
  }
}
