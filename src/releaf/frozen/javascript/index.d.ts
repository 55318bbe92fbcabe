export type Action = string | number | boolean;
export type Value = string | number | bigint | boolean | Date | null | undefined;
export type Context = readonly Value[] | Readonly<Record<string, Value>>;

export interface Decision {
  action: Action;
  /** Its index among the actions. */
  index: number;
  /** Probability (propensity) of the action. */
  probability: number;
  /** Probability of each action. */
  probabilities: number[];
  seed: number | bigint;
}

export interface Options {
  /** A whole number from 0 to 2**64 - 1, another one for each decision; random when undefined. */
  seed?: number | bigint;
  /** The actions that may be chosen; all when undefined. */
  eligible?: readonly Action[];
}

export class PolicyFileError extends Error {}

export class FrozenPolicy {
  readonly actions: readonly Action[];
  readonly features: readonly string[];
  decide(context: Context, options?: Options): Decision;
  probabilities(context: Context, options?: Pick<Options, "eligible">): number[];
  /** Numbers in [0, 1] that a context is encoded as, -1 for a missing one. */
  encode(context: Context): number[];
}

/** Read a frozen policy from its text, or from the parsed JSON. */
export function readPolicy(content: string | object, name?: string): FrozenPolicy;
