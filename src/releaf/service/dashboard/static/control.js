// The lift of the learner over its control group, in one sentence.
import { counted, make, share } from "./dom.js";
import { signed } from "./summary.js";

const LOOK = "These bounds hold with 95 % at all times at once, since the experiment began: look as often as you like.";

/** Nothing without a control group. */
export function controlGroup({ control: found }) {
  if (!found) return null;
  const { share: part, control, lift, lift_low: low, lift_high: high } = found;
  const who = control === "uniform" ? "any action, each with the same probability" : `always ${control}`;
  const group = `Control decides ${share(part, 1)} of traffic (${who}). It has ` +
    `${counted(found.control_rewards, "reward")}, the learner ${counted(found.learner_rewards, "reward")}.`;
  const verdict = lift === null ? "unknown" : low > 0 ? "better" : high < 0 ? "worse" : "open";
  const says = { better: "more per decision than control", worse: "less per decision than control",
    open: "per decision, compared with control" };
  const text = lift === null
    ? "Lift over control is not known: both groups need rewards."
    : [make("strong", {}, signed(lift)), ` ${says[verdict]}: `,
      verdict === "open" ? "not yet known to be more or less, " : "", `within ${signed(low)} to ${signed(high)}`];
  return [
    make("p", { className: `verdict ${verdict}` }, text), make("p", { className: "muted small" }, `${group} ${LOOK}`),
  ];
}
