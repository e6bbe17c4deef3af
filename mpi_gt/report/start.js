// a link into what is folded opens it
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && target.closest("details");
  if (fold && !fold.open) {
    fold.open = true;
    target.scrollIntoView();
  }
}

dark.addEventListener("change", drawAll);
window.addEventListener("hashchange", unfold);
if (page.live) {
  follow();
} else {
  makeSortable(document);
  bindCurves();
  drawAll().then(() => document.body.setAttribute("data-drawn", "yes"));
  unfold();
}
