"""How fast releaf is, measured against a floor, against rivals and against its own growth.

``make bench``, or ``python -m benchmarks replay rivals`` for some of it. Everything runs on one core: the numeric
libraries that the rivals use are told so before they are imported.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
