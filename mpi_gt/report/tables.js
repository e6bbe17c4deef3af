// a column is sorted by numbers where its cells have them
function sortBy(table, heading, up) {
  const column = [...heading.parentNode.children].indexOf(heading);
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
  const compare = (a, b) => {
    const [x, y] = [Number(key(a)), Number(key(b))];
    // cells that are not numbers come last in both orders
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
    return (up ? 1 : -1) * (isNaN(x) ? key(a).localeCompare(key(b)) : x - y);
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

function makeSortable(section) {
  section.querySelectorAll("table.sortable thead button").forEach((button) => {
    const heading = button.closest("th");
    button.addEventListener("click", () => {
      sortBy(button.closest("table"), heading, heading.getAttribute("aria-sort") !== "ascending");
    });
  });
}
