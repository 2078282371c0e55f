"""Print the lowest versions that pyproject.toml allows, of the dependencies and of the extras that are named.

python tools/lowest.py sklearn sympy > lowest.txt
pip install --constraint lowest.txt ".[sklearn,sympy]"
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
requirements = [*project["dependencies"]]
for extra in sys.argv[1:]:
    requirements += project["optional-dependencies"][extra]
for requirement in requirements:
    found = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", requirement)
    if found is None:
        sys.exit(f"pyproject.toml: {requirement!r} must read name>=version.")
    print(f"{found[1]}=={found[2]}")
