import sys

from pipeline.extraction import progress
from pipeline.extraction.progress import Progress


def test_a_log_gets_one_line_per_interval(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    assert not sys.stderr.isatty()
    with Progress("embed", 100_000) as bar:
        for _ in range(7):
            now[0] += 10
            bar.update(1000)
    assert capsys.readouterr().err.splitlines() == [
        "embed:   3% 3000/100000 [00:30<16:10, 100.00 images/s]",
        "embed:   6% 6000/100000 [01:00<15:40, 100.00 images/s]",
    ]
