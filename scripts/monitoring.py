#!/usr/bin/env python3
"""Checks alert rules and a dashboard against the metrics of a server.

  scripts/monitoring.py METRICS RULES DASHBOARD   METRICS is a file with the response to GET /metrics

The server must export every metric that the rules and the dashboard use, with the labels that they use.
"""

import json
import re
import sys
from pathlib import Path

# Metrics and labels that Prometheus itself adds.
OWN_METRICS = {"up"}
OWN_LABELS = {"instance", "job"}


def known(text: str) -> dict[str, set[str]]:
    """Returns the labels of each metric. A metric without samples is included because of its TYPE line."""
    metrics: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:4]
            for part in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
                metrics.setdefault(name + part, {"le"} if part == "_bucket" else set())
        elif line and not line.startswith("#"):
            series = line.rsplit(" ", 1)[0]
            name, _, labels = series.partition("{")
            metrics.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return metrics


def expressions(rules: str, dashboard: dict) -> list[str]:
    found = re.findall(r"^\s+expr: (?:\|\n((?:\s{10,}.*\n)+)|(.*))", rules, re.M)
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [it["query"] for it in dashboard["templating"]["list"] if it["type"] == "query"]
    return ["".join(it) for it in found] + targets + variables


def main() -> int:
    metrics, rules, dashboard = (Path(name).read_text() for name in sys.argv[1:4])
    names = known(metrics)
    wrong = []
    asked = expressions(rules, json.loads(dashboard))
    for expression in asked:
        for name, labels in re.findall(r"\b(fermata_\w+|up)\b(?:\{([^}]*)\})?", expression):
            if name in OWN_METRICS:
                continue
            if name not in names:
                wrong.append(f"there is no {name}, asked for by: {expression.strip()}")
                continue
            grouped = re.findall(r"\bby \(([^)]*)\)", expression)
            wanted = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))
            wanted |= {it.strip() for group in grouped for it in group.split(",")}
            missing = wanted - OWN_LABELS - names[name]
            # A metric without samples shows no labels, not even `worker`, so its labels cannot be checked.
            if missing and names[name]:
                wrong.append(f"{name} has no label {', '.join(sorted(missing))}, asked for by: {expression.strip()}")
    print(f"{len(asked)} expressions, {len(names)} metrics", *wrong, sep="\n")
    return 1 if wrong or len(asked) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
