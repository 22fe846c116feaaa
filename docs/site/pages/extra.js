// Tables that scroll by themselves can be reached with the keyboard: the theme wraps them when it has loaded.
const reachable = () =>
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table) => table.setAttribute("tabindex", "0"));
new MutationObserver(reachable).observe(document.documentElement, { childList: true, subtree: true });
reachable();

// The programs of "Should I use it?" are sorted by a press on a heading: once more, the other way round.
document.querySelectorAll(".programs thead th").forEach((head, column) =>
  head.querySelector("button").addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const order = head.ariaSort === "ascending" ? "descending" : "ascending";
    const value = (row) => row.cells[column].dataset.sort;
    const compare = (a, b) =>
      column ? value(a) - value(b) : a.cells[0].textContent.localeCompare(b.cells[0].textContent);
    const [known, unknown] = [(row) => !column || value(row), (row) => column && !value(row)];
    const rows = [...body.rows];
    const sorted = rows.filter(known).sort(order === "ascending" ? compare : (a, b) => compare(b, a));
    body.append(...sorted, ...rows.filter(unknown));
    head.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.ariaSort = order;
  }),
);
