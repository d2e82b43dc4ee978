#!/usr/bin/env python3
"""Shows the medians of every round in results.jsonl: report.py [results.jsonl]"""

import json
import statistics
import sys

# What stands in a line, if it was told; the first of these is what the ratio is of.
RATIO = ["p50_us", "total_s"]
FIELDS = [
    "p50_us", "p99_us", "ops_s", "cpu_s_10k",
    "total_s", "held_s", "cross_p50_us", "cross_p99_us", "same_worker", "wire_per_section", "min", "max", "violations", "cpu_s",
    "client_cpu_pct", "server_cpu_pct", "reads_s", "alive",
]  # fmt: skip


def ratio(field, told, first):
    """The median of the rounds' ratios to the first of the suite."""
    theirs = {each["round"]: each[field] for each in first}
    ratios = [each[field] / theirs[each["round"]] for each in told if theirs.get(each["round"])]
    return f" ({statistics.median(ratios):.2f}x, {min(ratios):.2f}-{max(ratios):.2f})" if ratios else ""


def show(results):
    first = {}
    for (suite, label), told in results.items():
        if suite not in first:
            first[suite] = told
            print(f"\n{suite}: medians; in brackets: the rounds' ratios to {label}")
        parts = []
        for field in FIELDS:
            values = [each[field] for each in told if field in each]
            if values:
                beside = ratio(field, told, first[suite]) if field in RATIO and told is not first[suite] else ""
                parts.append(f"{field} {statistics.median(values):g}{beside}")
        print(f"  {label:20}", "  ".join(parts))


def main():
    results = {}
    with open(sys.argv[1] if len(sys.argv) > 1 else "results.jsonl", encoding="utf-8") as lines:
        for line in lines:
            told = json.loads(line)
            results.setdefault((told["suite"], told["label"]), []).append(told)
    show(results)


if __name__ == "__main__":
    main()
