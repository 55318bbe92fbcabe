// Answers each line of {policy, cases} with the decisions of the JavaScript evaluator; cases are {context, seed, eligible}.
import { createInterface } from "node:readline";
const { readPolicy } = await import(process.argv[2]);

for await (const line of createInterface({ input: process.stdin })) {
  const { policy, cases } = JSON.parse(line);
  console.log(JSON.stringify(answer(policy, cases)));
}

function answer(text, cases) {
  let policy;
  try {
    policy = readPolicy(text);
  } catch (error) {
    return { error: error.message, kind: error.name };
  }
  return cases.map(({ context, seed, eligible }) => {
    try {
      const { index, action, probability, probabilities } = policy.decide(context, { seed: BigInt(seed), eligible });
      return { index, action, probability, probabilities, encoded: policy.encode(context) };
    } catch (error) {
      return { error: error.message, kind: error.name };
    }
  });
}
