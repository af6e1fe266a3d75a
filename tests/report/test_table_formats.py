"""Every format is parsed back: what was written is what the table says, no more and no less."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal

import pytest

from pipeline.report.table import Block, Cell, Column, Row, Table, mark_best
from pipeline.report.table_formats import to_csv, to_latex, to_markdown, to_text

AWKWARD = "a_b & 5% #1 {x} $y$ ~^ \\z | *w* <v> `u` [t] → σ † ± –"


def cell(mean, sd=None):
    return Cell(Decimal(mean), None if sd is None else Decimal(sd))


COLUMNS = (
    Column("a-b", "A→B", "one"),
    Column("real_world-b", "real world → b", "one"),
    Column("one.mean", "mean", "one", note="mean: of two"),
    Column("c-d", "C→D", "two"),
    Column("one.mean", "first 100%", "all", note="mean: of two"),
    Column("change", "change", "all", signed=True, note="change: of all"),
)


def row(key, title, *cells, **more):
    return Row(key, title, tuple(cells), **more)


first = cell("73.95", "0.05")
MEASURED = mark_best(
    [
        Block(
            "refer_ences",
            (
                row(
                    "x",
                    AWKWARD,
                    cell("82.71", "0.55"),
                    cell("65.25", "0.44"),
                    first,
                    None,
                    first,
                    None,
                ),
                row("y", "plain", None, None, None, cell("56.88"), None, cell("-7.01")),
            ),
        ),
        Block(
            "peers",
            (
                row(
                    "z",
                    "reader",
                    cell("82.68", "1"),
                    cell("65.24", "0.46"),
                    first,
                    cell("100.00", "0.00"),
                    first,
                    cell("-0.04"),
                    source_samples=True,
                ),
            ),
        ),
    ],
    COLUMNS,
)
PUBLISHED = mark_best(
    [
        Block(
            "published (other protocol)",
            (
                row("p", "P", cell("93.55", "2.1"), None, None, None, None, None, note="note & 1"),
                row(
                    "q",
                    "Q",
                    cell("7.0", "5.98"),
                    None,
                    None,
                    cell("100"),
                    None,
                    None,
                    source_samples=True,
                    note="note 2",
                ),
            ),
            published=True,
            digits=None,
        )
    ],
    COLUMNS,
)
TABLE = Table(
    "made_up",
    "Made-up 100%",
    "method",
    COLUMNS,
    (*MEASURED, *PUBLISHED),
    ("A_T in percent",),
    (("one", "One_1"), ("two", "Two"), ("all", "all")),
)


def shown(block, column, cell):
    """Return what a reader must see of a cell: mean, deviation, whether it is the best."""
    if cell is None:
        return None
    step = Decimal("0.1")
    mean, sd = cell.mean, cell.sd
    if block.digits == 1:  # to one decimal, halves up
        mean = (mean + Decimal("0.05").copy_sign(mean)) // step * step
        sd = None if sd is None else (sd + Decimal("0.05")) // step * step
    return mean, sd, cell.best


def expected(table):
    """Return the table's parts: title of each column, then heading -> names -> cells."""
    marks = table.marks()
    told = []
    for part in table.parts():
        blocks = {}
        for block in part.blocks:
            blocks[block.heading] = {
                r.title + "†" * r.source_samples + (f" ({marks[r.note]})" if r.note else ""): [
                    shown(block, column, c) for column, c in zip(part.columns, r.cells, strict=True)
                ]
                for r in block.rows
            }
        told.append(([c.title for c in part.columns], blocks))
    return told


def parsed(text, *, best=False):
    """Return what ``82.7 ± 0.6`` says."""
    if text == "–":
        return None
    mean, _, sd = text.partition(" ± ")
    return Decimal(mean), Decimal(sd) if sd else None, best


# ---- CSV


def test_csv_has_one_value_per_cell():
    rows = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    assert list(rows[0]) == [
        *("kind", "group", "method", "title", "source_samples"),
        *("a-b", "a-b_sd", "real_world-b", "real_world-b_sd", "one.mean", "one.mean_sd"),
        *("c-d", "c-d_sd", "change", "note"),  # the summary's column is the mean once more
    ]
    told = {(r["kind"], r["method"]): r for r in rows}
    assert [r["group"] for r in rows] == ["refer_ences", "refer_ences", "peers", "", ""]
    assert told["measured", "x"]["title"] == AWKWARD
    assert told["published", "p"]["note"] == "note & 1"
    assert [r["source_samples"] for r in rows] == ["false", "false", "true", "false", "true"]
    for block in TABLE.blocks:
        for r in block.rows:
            line = told["published" if block.published else "measured", r.key]
            for column, c in zip(TABLE.columns, r.cells, strict=True):
                assert line[column.key] == ("" if c is None else str(c.mean))  # not rounded
                if not column.signed:
                    assert line[f"{column.key}_sd"] == (
                        "" if c is None or c.sd is None else str(c.sd)
                    )


def test_csv_by_problem_is_plain():
    table = replace(
        TABLE,
        rows="problem",
        columns=COLUMNS[:1],
        blocks=(Block("", (row("a-b", "t", cell("1.25", "0.5")),)),),
    )
    assert to_csv(table) == "problem,a-b,a-b_sd\na-b,1.25,0.5\n"


# ---- Markdown


def unescaped(text):
    return re.sub(r"\\(.)", r"\1", text)


def read_markdown(text):
    told, footnotes = [], []
    for line in filter(None, text.splitlines()):
        if line.startswith("### "):
            told.append([None, {"": {}}])
            heading = ""
        elif line.startswith("#### "):
            heading = unescaped(line.removeprefix("#### "))
            told[-1][1][heading] = {}
        elif line.startswith("|"):
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
            if cells[0] == "method":
                assert told[-1][0] in (None, [unescaped(c) for c in cells[1:]])
                told[-1][0] = [unescaped(c) for c in cells[1:]]
            elif set(cells[0]) == {"-"}:
                assert cells[1:] == ["---:"] * len(told[-1][0])
            elif not any(cells[1:]):
                heading = unescaped(cells[0][1:-1])
                told[-1][1][heading] = {}
            else:
                told[-1][1][heading][unescaped(cells[0])] = [
                    parsed(c.strip("*"), best=c.startswith("**")) for c in cells[1:]
                ]
        else:
            footnotes.append(unescaped(line))
    return [
        (titles, {h: rows for h, rows in blocks.items() if rows}) for titles, blocks in told
    ], footnotes


def test_markdown_is_read_back():
    told, footnotes = read_markdown(to_markdown(TABLE))
    assert told == expected(TABLE)
    assert footnotes == [
        "A_T in percent",
        "mean: of two",
        "change: of all",
        "bold: the best of each column, measured and published apart",
        "† reads source samples while adapting: not source-free",
        "(a) note & 1",
        "(b) note 2",
    ]


def test_markdown_names_its_parts():
    headings = re.findall(r"^### (.*)", to_markdown(TABLE), re.MULTILINE)
    assert headings == ["Made-up 100%, One\\_1", "Made-up 100%, Two", "Made-up 100%, all"]


# ---- LaTeX

SPOKEN = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"$\rightarrow$": "→",
    r"$\pm$": "±",
    r"$\sigma$": "σ",
    r"$^\dagger$": "†",
    "--": "–",
    "$<$": "<",
    "$>$": ">",
    "$A_T$": "A_T",
    **{"\\" + letter: letter for letter in "{}$&%#_"},
}


def spoken(tex):
    """Return what LaTeX prints, reading it from left to right."""
    pattern = "|".join(map(re.escape, sorted(SPOKEN, key=len, reverse=True)))
    return re.sub(pattern, lambda found: SPOKEN[found.group()], tex)


def title_of(tex):
    stacked = re.fullmatch(
        r"\\begin\{tabular\}\[b\]\{@\{\}r@\{\}\}(.*)\\\\(.*)\\end\{tabular\}", tex
    )
    return spoken(" ".join(stacked.groups()) if stacked else tex)


def name_of(tex):
    """Return a row's name with marks as the other formats have them."""
    name, raised = re.fullmatch(r"(.*?)(?:\$\^\{([^}]*)\}\$)?", tex).groups()
    dagger, letter = "\\dagger" in (raised or ""), (raised or "").replace("\\dagger", "").strip()
    return spoken(name) + "†" * dagger + (f" ({letter})" if letter else "")


def cell_of(tex):
    bold = re.fullmatch(r"\\textbf\{(.*)\}", tex)
    text = spoken(bold.group(1) if bold else tex)
    signed = re.fullmatch(r"\$([+-].*)\$", text)
    return parsed(signed.group(1) if signed else text, best=bool(bold))


def read_latex(text):
    told = []
    for body in re.findall(r"\\toprule\n(.*?)\\bottomrule", text, re.DOTALL):
        header, *lines = body.strip().splitlines()
        cells = re.split(r"(?<!\\) & ", header.removesuffix(r" \\"))
        assert cells[0] == "method"
        blocks, heading = {}, ""
        for line in lines:
            if line == r"\midrule":
                continue
            assert line.endswith(r" \\")
            group = re.fullmatch(r"\\multicolumn\{(\d+)\}\{l\}\{\\emph\{(.*)\}\} \\\\", line)
            if group:
                assert int(group.group(1)) == len(cells)
                heading = spoken(group.group(2))
            else:
                name, *values = re.split(r"(?<!\\) & ", line.removesuffix(r" \\"))
                blocks.setdefault(heading, {})[name_of(name)] = [cell_of(v) for v in values]
        told.append(([title_of(c) for c in cells[1:]], blocks))
    return told


def test_latex_is_read_back():
    # a part of its own floats by itself, so each has its own letters; here the same, as `a` comes first
    wanted = expected(TABLE)
    wanted[1] = (wanted[1][0], {**wanted[1][1]})
    renamed = {"Q† (b)": "Q† (a)"}  # alone with its note in the second part
    wanted[1][1][PUBLISHED[0].heading] = {
        renamed.get(name, name): cells for name, cells in wanted[1][1][PUBLISHED[0].heading].items()
    }
    assert read_latex(to_latex(TABLE)) == wanted


def test_latex_is_ascii_labelled_and_no_wider_than_the_page():
    text = to_latex(TABLE)
    assert text.isascii()
    assert re.findall(r"\\label\{(.*?)\}", text) == [
        "tab:made-up-one",
        "tab:made-up-two",
        "tab:made-up-all",
    ]
    assert re.findall(r"\\caption\{(.*)\}", text)[0] == r"Made-up 100\%, One\_1"
    assert text.count(r"\resizebox{\ifdim\width>\textwidth") == 3
    assert text.count(r"\midrule" + "\n" + r"\midrule") == 2  # above what was published
    notes = re.findall(r"^(.*)\.\\par$", text, re.MULTILINE)
    assert notes[:2] == ["$A_T$ in percent", "mean: of two"]
    assert r"$^{\dagger}$reads source samples while adapting: not source-free" in notes
    assert r"$^{a}$note \& 1" in notes


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path):
    (tmp_path / "table.tex").write_text(to_latex(TABLE))
    (tmp_path / "doc.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{table}\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "doc.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("booktabs is not installed")
    assert done.returncode == 0, done.stdout
    log = (tmp_path / "doc.log").read_text(errors="replace")
    assert "Missing character" not in log
    assert "Overfull" not in log


# ---- text for a terminal


def read_text(text):
    """Return header -> heading -> name -> cells; columns stand two spaces apart at least."""
    told, header = [], None
    for line in text.splitlines():
        if line.startswith("method"):
            titles = re.split(r"\s{2,}", line)[1:]
            header = titles
            told.append((titles, {}))
        elif header is None:
            continue
        elif not line:
            header = None
        elif set(line) == {"-"}:
            heading = ""
        else:
            name, *cells = re.split(r"\s{2,}", line)
            if not cells:
                heading = name
            else:
                told[-1][1].setdefault(heading, {})[name] = [
                    parsed(c.rstrip("*"), best=c.endswith("*")) for c in cells
                ]
    return told


def test_text_is_read_back():
    text = to_text(TABLE)
    assert read_text(text) == expected(TABLE)
    assert text.startswith("Made-up 100%\n")
    assert text.endswith(
        "*: the best of each column, measured and published apart\n"
        "† reads source samples while adapting: not source-free\n(a) note & 1\n(b) note 2\n"
    )


def test_text_breaks_columns_that_do_not_fit():
    def widest(text):
        return max(len(line) for line in text.partition("\nA_T")[0].splitlines())

    assert widest(to_text(TABLE)) > 80
    narrow = to_text(TABLE, width=88)
    assert all(widest(to_text(TABLE, width)) <= width for width in range(75, 130))
    titles = [titles for titles, _ in read_text(narrow)]
    assert titles == [["A→B", "real world → b"], ["mean"], ["C→D"], ["first 100%", "change"]]
    (_, blocks) = read_text(narrow)[1]
    assert [list(rows) for rows in blocks.values()] == [[AWKWARD], ["reader†"]]


def test_a_loss_that_rounds_to_nothing_has_no_minus_zero():
    for render in (to_text, to_markdown, to_latex):
        assert "-0.0" not in render(TABLE)
        assert "+0.0" in render(TABLE)


@pytest.mark.parametrize("render", [to_csv, to_markdown, to_latex, to_text])
def test_an_empty_column_and_the_same_text_twice(render):
    empty = replace(TABLE, blocks=(Block("", (row("x", "x", *[None] * 6),)),))
    assert render(empty) == render(empty)
