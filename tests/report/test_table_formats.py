"""A made-up table in every format, with the expected output written out in full."""

import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal

import pytest

from pipeline.report.table import TIES, Block, Cell, Column, Row, Table, format_figure
from pipeline.report.table_formats import tex, to_csv, to_latex, to_markdown, to_text

AWKWARD = "a_b & 5% #1 {x} $y$ ~^ \\z | *w* <v> `u` [t] → σ † ± –"
ONE, TWO = ("one", "One_1"), ("two", "Two")
COLUMNS = (
    Column("a-b", "A→B", *ONE),
    Column("one.mean", "mean", *ONE, note="mean: of two"),
    Column("real_world-b", "real world → b", *TWO),
    Column("one.mean", "first 100%", *TWO, note="mean: of two"),
    Column("change", "change", *TWO, signed=True, note="change: of all"),
)


def cell(mean, sd=None, digits=1, *, best=False):
    return Cell(Decimal(mean), None if sd is None else Decimal(sd), digits, best)


MEAN = {"one.mean": cell("73.95", "0.05", best=True)}
X = {"a-b": cell("82.71", "0.55", best=True), **MEAN}
Y = {"real_world-b": cell("56.88"), "change": cell("-7.01")}
Z = {"a-b": cell("82.68", "1", best=True), **MEAN}
Z |= {"real_world-b": cell("100.00", "0.00", best=True), "change": cell("-0.04")}
P = {"a-b": cell("93.55", "2.1", None, best=True)}
Q = {"a-b": cell("7.0", None, None), "real_world-b": cell("100", None, None, best=True)}
TABLE = Table(
    "made_up",
    "Made-up 100%",
    "method",
    COLUMNS,
    (
        Block("refer_ences", (Row("x", "X_1", X), Row("y", "Y", Y))),
        Block("peers", (Row("z", "Z", Z, source_samples=True),)),
        Block(
            "published (other protocol)",
            (Row("p", "P", P, note="note & 1"), Row("q", "Q", Q, source_samples=True, note="note 2")),
            published=True,
        ),
    ),
    ("A_T in percent",),
)


def test_rounding_is_half_away_from_zero_and_never_minus_zero():
    assert [cell(v).text() for v in ("82.65", "-0.04", "-0.05")] == ["82.7", "0.0", "-0.1"]
    assert cell("93.550", "2.1", None).text() == "93.550 ± 2.1"
    assert format_figure(82.35, 0.25) == "82.4 ± 0.3"  # as in tables, though 82.35 is below 82.35


def test_csv_has_one_unrounded_value_per_cell_and_columns_about_methods_only_in_tables_of_methods():
    assert to_csv(TABLE) == (
        "kind,group,method,title,source_samples,a-b,a-b_sd,one.mean,one.mean_sd,"
        "real_world-b,real_world-b_sd,change,note\n"  # the mean occurs once although it is in two sections
        "measured,refer_ences,x,X_1,false,82.71,0.55,73.95,0.05,,,,\n"
        "measured,refer_ences,y,Y,false,,,,,56.88,,-7.01,\n"
        "measured,peers,z,Z,true,82.68,1,73.95,0.05,100.00,0.00,-0.04,\n"
        "published,,p,P,false,93.55,2.1,,,,,,note & 1\n"
        "published,,q,Q,true,7.0,,,,100,,,note 2\n"
    )
    row = Row("a-b", "t", {"a-b": cell("1.25", "0.5")})
    table = replace(TABLE, row_kind="problem", columns=COLUMNS[:1], blocks=(Block("", (row,)),))
    assert to_csv(table) == "problem,a-b,a-b_sd\na-b,1.25,0.5\n"


MARKDOWN_OF_ONE_SECTION = r"""
### Made-up 100%, Two

| method | real world → b | first 100% | change |
|---|---:|---:|---:|
| *refer\_ences* |  |  |  |
| X\_1 | – | **74.0 ± 0.1** | – |
| Y | 56.9 | – | -7.0 |
| *peers* |  |  |  |
| Z† | **100.0 ± 0.0** | **74.0 ± 0.1** | +0.0 |

#### published (other protocol)

| method | real world → b | first 100% | change |
|---|---:|---:|---:|
| Q† (b) | **100** | – | – |

A\_T in percent

mean: of two

change: of all

bold: the best of each column, TIES; separately for published figures

† reads source samples while adapting: not source-free

(a) note & 1

(b) note 2
"""
LATEX_OF_ONE_SECTION = r"""
\begin{table*}[t]
\centering\small
\caption{Made-up 100\%, Two}
\label{tab:made-up-two}
\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%
\begin{tabular}{lrrr}
\toprule
method & \begin{tabular}[b]{@{}r@{}}real world\\$\rightarrow$ b\end{tabular} & first 100\% & change \\
\midrule
\multicolumn{4}{l}{\emph{refer\_ences}} \\
X\_1 & -- & \textbf{74.0 $\pm$ 0.1} & -- \\
Y & 56.9 & -- & $-7.0$ \\
\midrule
\multicolumn{4}{l}{\emph{peers}} \\
Z$^{\dagger}$ & \textbf{100.0 $\pm$ 0.0} & \textbf{74.0 $\pm$ 0.1} & $+0.0$ \\
\midrule
\midrule
\multicolumn{4}{l}{\emph{published (other protocol)}} \\
Q$^{\dagger a}$ & \textbf{100} & -- & -- \\
\bottomrule
\end{tabular}}
\par\smallskip\begin{minipage}{\textwidth}\footnotesize
$A_T$ in percent.\par
mean: of two.\par
change: of all.\par
bold: the best of each column, TIES; separately for published figures.\par
$^{\dagger}$reads source samples while adapting: not source-free.\par
$^{a}$note 2.\par
\end{minipage}
\end{table*}
"""
TEXT = """Made-up 100%
method        A→B       mean
----------------------------
refer_ences
X_1      82.7±0.6*  74.0±0.1*
----------------------------
peers
Z†       82.7±1.0*  74.0±0.1*
----------------------------
published (other protocol)
P (a)   93.55±2.1*         –
Q† (b)        7.0          –
"""


def test_tables_are_formatted_as_written_out_above():
    markdown, latex, text = to_markdown(TABLE), to_latex(TABLE), to_text(TABLE)
    assert markdown.startswith("### Made-up 100%, One\\_1\n\n| method | A→B | mean |\n|---|---:|---:|\n")
    assert markdown.endswith(MARKDOWN_OF_ONE_SECTION.replace("TIES", TIES))
    assert latex.startswith(r"% \usepackage{booktabs,graphicx}" + "\n\n" + r"\begin{table*}")
    assert latex.endswith(LATEX_OF_ONE_SECTION.replace("TIES", TIES))  # letters are assigned anew in each table
    assert latex.isascii()
    assert text.startswith(TEXT)
    assert text.endswith("(a) note & 1\n(b) note 2\n")


def test_special_characters_are_escaped():
    assert tex(AWKWARD) == (
        r"a\_b \& 5\% \#1 \{x\} \$y\$ \textasciitilde{}\textasciicircum{} \textbackslash{}z | *w* "
        r"$<$v$>$ `u` [t] $\rightarrow$ $\sigma$ $^\dagger$ $\pm$ --"
    )
    row = Row("x", AWKWARD, MEAN)
    awkward = replace(TABLE, blocks=(Block("", (row,)),))
    assert r"| a\_b & 5% #1 {x} $y$ ~^ \\z \| \*w\* \<v> \`u\` \[t] → σ † ± – |" in to_markdown(awkward)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_and_fits_the_page(tmp_path):
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
