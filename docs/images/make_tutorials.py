"""Draw the pictures of the tutorials: run the blocks of each page and keep what they save, in ``tutorials/``."""

import os
import re
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
mpl.rcParams.update({"savefig.dpi": 150, "figure.figsize": (6.4, 3.8)})

HERE = Path(__file__).resolve().parent

for page in ("matrix", "graph_or_data", "network"):
    text = (HERE.parent / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(code, f"{page}.md", "exec"), {})
        for picture in sorted(Path(folder).glob("*.png")):
            print(page, picture.name)
            (HERE / "tutorials" / picture.name).write_bytes(picture.read_bytes())
        os.chdir(HERE)
