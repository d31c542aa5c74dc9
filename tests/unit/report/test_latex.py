"""Tables as LaTeX: escaped, grouped and complete."""

from iada.report.page import latex_text, to_latex
from iada.report.tables import Cell, Column, Table


def test_nothing_in_the_text_is_a_command() -> None:
    given = "50% & $x$ #1 a_b {c} \\d ~ ^ < >"
    assert latex_text(given) == (
        r"50\% \& \$x\$ \#1 a\_b \{c\} \textbackslash{}d \textasciitilde{} \textasciicircum{} "
        "$<$ $>$"
    )
    assert latex_text("1.0 ± 0.1 – Δ α ↑") == r"1.0 $\pm$ 0.1 -- $\Delta$ $\alpha$ $\uparrow$"


def test_a_table_with_groups_and_marks() -> None:
    columns = (
        Column("System", numeric=False),
        Column("s-BLEU"),
        Column("s-BLEU", group="Paper, TED"),
        Column("d-BLEU", group="Paper, TED"),
    )
    cells = (Cell("A", "A"), Cell(1.0, "1.0", "∗"), Cell(2.0, "2.0"), Cell(None, "–"))
    table = Table(columns, (cells,), ("A note.",))
    lines = to_latex(table, caption="Main", label="main-mini").splitlines()
    assert lines[3] == r"\begin{tabular}{lrrr}"
    assert lines[5] == (r"\multicolumn{2}{c}{} & \multicolumn{2}{c}{Paper, TED} \\")
    assert lines[6] == r"\cmidrule(lr){3-4}"
    assert lines[7] == r"System & s-BLEU & s-BLEU & d-BLEU \\"
    assert lines[9] == r"A & 1.0\textsuperscript{$\ast$} & 2.0 & -- \\"
    assert lines[-3] == r"\caption{Main. A note.}"
    assert lines[-2] == r"\label{tab:main-mini}"


def test_a_table_without_groups_has_one_line_of_headings() -> None:
    table = Table((Column("A"),), ((Cell(1, "1"),),))
    assert "multicolumn" not in to_latex(table, caption="C", label="l")
