"use strict";
// One section at a time, chosen by the address's fragment; without scripts, and on paper, all of them.
(() => {
  const pages = [...document.querySelectorAll("section.page")];
  const links = [...document.querySelectorAll("nav a")];
  const show = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const page = target?.closest("section.page") ?? pages[0];
    for (const other of pages) other.hidden = other !== page;
    for (const link of links) {
      const here = link.hash === "#" + page.id;
      if (here) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      if (here) link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.clientWidth / 2;
    }
    if (target && target !== page) target.scrollIntoView();
    else scrollTo(0, 0);
  };
  addEventListener("hashchange", show);
  addEventListener("beforeprint", () => pages.forEach((page) => { page.hidden = false; }));
  addEventListener("afterprint", show);
  show();
})();
