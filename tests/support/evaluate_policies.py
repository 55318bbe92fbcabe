"""Answers each line of {policy, cases} with the decisions of a copy of the Python evaluator."""

import importlib.util
import json
import sys
from typing import Any


def answer(evaluator: Any, text: str, cases: list[Any]) -> Any:
    try:
        policy = evaluator.read_policy(text)
    except evaluator.PolicyFileError as error:
        return {"error": str(error), "kind": type(error).__name__}
    return [decide(policy, case) for case in cases]


def decide(policy: Any, case: dict[str, Any]) -> dict[str, Any]:
    try:
        made = policy.decide(case["context"], seed=int(case["seed"]), eligible=case.get("eligible"))
    except (ValueError, TypeError) as error:
        return {"error": str(error), "kind": type(error).__name__}
    return {
        **{name: getattr(made, name) for name in ("index", "action", "probability", "probabilities")},
        "encoded": policy.encode(case["context"]),
    }


if __name__ == "__main__":
    specification: Any = importlib.util.spec_from_file_location("evaluator", sys.argv[1])
    sys.modules["evaluator"] = loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    if "numpy" in sys.modules or "releaf" in sys.modules:
        raise SystemExit("the evaluator imported more than the standard library")
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(loaded, request["policy"], request["cases"])), flush=True)
