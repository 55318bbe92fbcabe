"""The one setting of RELEAF with which all of the paper's data sets come near its figures."""

from __future__ import annotations

from typing import Any

ONE_SETTING: dict[str, Any] = {"lipschitz": 1.0, "rho": None, "delta": 0.01, "control_divisor": 5000}
ONE_SETTING_TOLD = "L = 1, ρ = 2+2√2, δ = 0.01, control numbers divided by 5000"
