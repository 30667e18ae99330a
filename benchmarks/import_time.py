"""The time to import specdens, in fresh interpreters, with numba importable and without; it must not be imported."""

from __future__ import annotations

import json
import subprocess
import sys

from harness import Report, at_most, options

PROGRAM = """
import json, sys, time
if sys.argv[1] == "without":
    sys.modules["numba"] = None  # as if it were not installed
started = time.perf_counter()
import specdens
print(json.dumps([time.perf_counter() - started, bool(sys.modules.get("numba"))]))
"""


def main() -> None:
    arguments = options(__doc__, repeats=9).parse_args()
    report = Report(__file__, arguments)
    times: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(1 if arguments.tiny else arguments.repeats):
        for name, values in times.items():
            output = subprocess.run([sys.executable, "-c", PROGRAM, name], check=True, capture_output=True, text=True)
            seconds, imported = json.loads(output.stdout)
            if imported:
                raise AssertionError("importing specdens has imported numba")
            values.append(seconds)
    for name, values in times.items():
        report.add("import specdens", f"{name} numba importable, not imported", values, "s", at_most(0.5))
    report.write()


if __name__ == "__main__":
    main()
