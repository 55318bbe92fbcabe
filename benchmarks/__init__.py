"""How fast releaf is, measured against a floor, against other libraries and against its own growth.

``make bench``, or ``python -m benchmarks replay libraries`` for some of it. Everything runs on one core: the numeric
libraries that other libraries use are told so before they are imported.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
