// Tables that scroll by themselves can be reached with the keyboard: the theme wraps them when it has loaded.
const reachable = () =>
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table) => table.setAttribute("tabindex", "0"));
new MutationObserver(reachable).observe(document.documentElement, { childList: true, subtree: true });
reachable();
