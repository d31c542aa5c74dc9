"""Tables as LaTeX for a paper; they need the package `booktabs` and nothing else."""

from itertools import groupby

from iada.report.tables import Cell, Column, Table

_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "∗": r"$\ast$",
    "†": r"$\dagger$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "“": "``",
    "”": "''",
    "\n": " ",
}


def to_latex(table: Table, *, caption: str, label: str) -> str:
    """Write the table as a float, with its notes in the caption."""
    alignment = "".join("r" if column.numeric else "l" for column in table.columns)
    words = " ".join(map(latex_text, (f"{caption}.", *table.notes)))
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        *_group_lines(table.columns),
        _line([latex_text(column.name) for column in table.columns]),
        r"\midrule",
        *(_line([_cell(cell) for cell in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{words}}}",
        rf"\label{{tab:{label}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Escape everything that LaTeX would take for a command, and spell out signs."""
    return "".join(_SIGNS.get(character, character) for character in text)


def _line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(cell: Cell) -> str:
    mark = rf"\textsuperscript{{{latex_text(cell.mark)}}}" if cell.mark else ""
    return latex_text(cell.text) + mark


def _group_lines(columns: tuple[Column, ...]) -> list[str]:
    """Return the headings over groups of columns, and the rules below them."""
    if not any(column.group for column in columns):
        return []
    cells, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(group)}}}")
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [_line(cells), " ".join(rules)]
