"""Print at the end how many inputs were tried."""

from fuzz.harness import tried


def pytest_terminal_summary(terminalreporter):
    if tried:
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(tried.items()))
        terminalreporter.write_line(f"inputs tried: {sum(tried.values())} ({counts})")
