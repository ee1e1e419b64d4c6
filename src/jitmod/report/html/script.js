"use strict";
{
  const rows = [...document.querySelectorAll("[data-verdict]")];
  const buttons = [...document.querySelectorAll("[data-show]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      const wanted = button.dataset.show;
      for (const row of rows) row.hidden = wanted !== "" && row.dataset.verdict !== wanted;
    });
  }

  const headings = () => [...document.querySelectorAll("article[data-verdict]:not([hidden]) > h3")];
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "j" && event.key !== "k")) return;
    const all = headings();
    const above = all.filter((one) => one.getBoundingClientRect().top < 8);
    const focused = all.indexOf(document.activeElement);
    const here = focused >= 0 ? focused : above.length - 1;
    const next = all[Math.min(Math.max(here + (event.key === "j" ? 1 : -1), 0), all.length - 1)];
    if (next) {
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "start" });
    }
  });

  const closed = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  window.addEventListener("beforeprint", () => {
    for (const one of closed()) {
      opened.push(one);
      one.open = true;
    }
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
  });

  document.getElementById("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.getElementById("run").textContent], { type: "application/json" }));
    link.download = "run.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
