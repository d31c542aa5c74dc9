for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...[...table.tHead.rows].at(-1).cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const direction = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    const key = (row) => row.cells[column].dataset.value;
    const number = head.classList.contains("number");
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      if (!key(a) || !key(b)) return !key(a) - !key(b);
      const order = number ? key(a) - key(b) : key(a).localeCompare(key(b));
      return direction === "ascending" ? order : -order;
    });
    heads.forEach((other) => other.setAttribute("aria-sort", other === head ? direction : "none"));
    table.tBodies[0].append(...rows);
  }));
}
