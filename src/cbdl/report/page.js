// Tables sort by the column whose heading is pressed; once more turns the order around. Without this script they are
// as they were written.
"use strict";

function value(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = Number.parseFloat(text.replace(/^[^\d.-]+/, "").replace(/,/g, ""));
  return { text, number: Number.isNaN(number) ? null : number };
}

function compare(a, b, turn) {
  if (a.number !== null && b.number !== null) return turn * (a.number - b.number);
  if (a.number !== null || b.number !== null) return a.number === null ? 1 : -1; // what is no number is always last
  return turn * a.text.localeCompare(b.text);
}

function sort(table, column) {
  const heading = table.tHead.rows[0].cells[column];
  const turn = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => compare(value(a, column), value(b, column), turn));
  body.append(...rows);
}

for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(table, column));
  });
}
