#!/usr/bin/env python3
"""Run a program under every option and profile; each run has to succeed.

usage: every_option.py [--preload LIBRARY] [--every N --from I] COMMAND...    (of the settings, each Nth from the Ith on)
"""

import argparse
import os
import subprocess
import sys

SETTINGS = [
    {},
    {"PROFILE": "speed"},
    {"PROFILE": "balanced"},
    {"PROFILE": "lean"},
    {"CACHE": "0"},
    {"CACHE": "0", "PROFILE": "lean"},
    {"CACHE_CLASS_MAX": "4K"},
    {"CACHE_CLASS_MAX": "64M"},
    {"RETAIN": "0", "RETAIN_MAX": "0", "DECAY_MS": "0", "WARM_POOL_SIZE": "0"},
    {"RETAIN": "4G", "DECAY_MS": "3600000"},
    {"MEM_LEAN": "1"},
    {"HUGE_PAGES": "dense"},
    {"HUGE_PAGES": "off"},
    {"MEMORY_LIMIT": "512M"},
    {"KEEP_DEEPBIND": "1"},
    {"CHECK_FREES": "1"},
    {"TRAP_EMPTY": "0"},
    *({f"CACHE_C{band}": blocks} for band in range(8) for blocks in ("0", "1")),
    {f"CACHE_C{band}": "0" for band in range(8)},
    {f"CACHE_C{band}": "1" for band in range(8)},
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    failures = 0
    settings = SETTINGS[options.first :: options.every]
    for setting in settings:
        environment = os.environ | {f"HAKMEM_{name}": value for name, value in setting.items()}
        if options.preload:
            environment["LD_PRELOAD"] = options.preload
        result = subprocess.run(options.command, env=environment, capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            failures += 1
            print(f"{setting}: status {result.returncode}: {result.stderr.strip()}")
    sys.exit(f"{failures} of {len(settings)} settings failed" if failures else 0)


if __name__ == "__main__":
    main()
