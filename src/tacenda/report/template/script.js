"use strict";
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (k) => css("--c" + (k % 8));
  const clear = (hex, alpha) => {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  };
  let printing = false;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const narrowBox = (box) => box.clientWidth < 560;

  const dressTrace = (trace, box) => {
    const t = structuredClone(trace);
    const c = colour(t.meta.c);
    if (t.meta.role === "line") {
      t.line.color = c;
      if (t.marker) t.marker.color = c;
      if (t.error_y) t.error_y.color = c;
    }
    if (t.meta.role === "bar") {
      t.marker.color = clear(c, 0.55);
      if (t.error_y) t.error_y.color = css("--ink");
    }
    if (t.meta.role === "map") {
      t.colorbar.tickfont = { color: css("--quiet"), size: 12 };
      t.colorbar.title.font = { color: css("--quiet"), size: 13 };
    }
    if (t.meta.role === "level") t.line.color = css("--quiet");
    if (t.meta.role === "band") t.fillcolor = clear(c, 0.16);
    if (t.meta.role === "mark") Object.assign(t.marker, { color: css("--sheet"), line: { width: 2.5, color: c } });
    if (t.meta.role === "edge") t.line.color = clear(css("--quiet").length === 7 ? css("--quiet") : "#555555", 0.55);
    if (t.meta.role === "node") {
      t.marker.line.color = isDark() && !printing ? css("--quiet") : css("--sheet");
      if (t.marker.colorbar) {
        t.marker.colorbar.tickfont = { color: css("--quiet"), size: 12 };
        t.marker.colorbar.title.font = { color: css("--quiet"), size: 13 };
        if (printing || narrowBox(box)) Object.assign(t.marker.colorbar, { title: {}, thickness: 9 }); // the caption says what it shows
      } else t.marker.color = c;
      if (narrowBox(box)) t.marker.size = t.marker.size.map((s) => Math.max(4, s * 0.6));
    }
    return t;
  };

  const dressLayout = (layout, box) => {
    const narrow = narrowBox(box);
    const drawing = layout.xaxis.visible === false;
    const axis = (given) => ({
      automargin: true, gridcolor: css("--line"), linecolor: css("--line"), zeroline: false, tickcolor: css("--line"),
      tickfont: { color: css("--quiet"), size: 12 }, ...structuredClone(given),
      title: { ...(given.title || {}), font: { color: css("--quiet"), size: 13 }, standoff: 10 },
    });
    return {
      ...structuredClone(layout),
      xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis), ...(layout.xaxis2 ? { xaxis2: axis(layout.xaxis2) } : {}),
      width: box.clientWidth, height: box.clientHeight,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: css("--ink") },
      margin: drawing ? { l: 10, r: 10, t: 14, b: 10 } : { l: 56, r: 22, t: 18, b: 46 },
      legend: narrow || printing
        ? { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal", font: { color: css("--ink") } }
        : { traceorder: "normal", font: { color: css("--ink") }, bgcolor: "rgba(0,0,0,0)" },
      hoverlabel: { bgcolor: css("--sheet"), bordercolor: css("--quiet"), font: { color: css("--ink") }, align: "left" },
    };
  };

  const config = {
    displaylogo: false, showTips: false, showLink: false, doubleClick: "reset",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toggleSpikelines"],
    toImageButtonOptions: { format: "svg", filename: "figure" },
  };

  const draw = (box) => {
    if (!box.clientWidth) return;
    box.spec ??= JSON.parse(document.getElementById(box.dataset.spec).textContent);
    Plotly.react(box, box.spec.data.map((trace) => dressTrace(trace, box)), dressLayout(box.spec.layout, box), config);
    box.drawnAt = box.clientWidth + "x" + box.clientHeight;
  };
  const drawAll = () => plots.forEach(draw);

  // Theme: the system's choice until the reader presses the button.
  const button = document.getElementById("theme");
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); drawAll(); });
  system.addEventListener("change", () => { label(); drawAll(); });

  // Tabs: arrow keys move, Home and End jump.
  document.querySelectorAll('[role="tablist"]').forEach((list) => {
    const tabs = [...list.querySelectorAll('[role="tab"]')];
    const choose = (tab) => {
      for (const other of tabs) {
        const on = other === tab;
        other.setAttribute("aria-selected", String(on));
        other.tabIndex = on ? 0 : -1;
        document.getElementById(other.getAttribute("aria-controls")).hidden = !on;
      }
      document.getElementById(tab.getAttribute("aria-controls")).querySelectorAll(".plot").forEach(draw);
    };
    tabs.forEach((tab, k) => {
      tab.addEventListener("click", () => choose(tab));
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: k + 1, ArrowLeft: k - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = tabs[(to + tabs.length) % tabs.length];
        next.focus();
        choose(next);
      });
    });
  });

  // Tables that sort by a press on the heading.
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, k) => head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[k].dataset.sort ?? row.cells[k].textContent;
      const numeric = (v) => ({ inf: Infinity, "-inf": -Infinity, nan: NaN }[v] ?? Number(v));
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row), row]);
      const all = rows.every(([v]) => v === "nan" || !Number.isNaN(numeric(v)));
      const last = (v) => (Number.isNaN(v) ? Infinity : v);
      rows.sort(([a], [b]) => (all ? (last(numeric(a)) < last(numeric(b)) ? -1 : last(numeric(a)) > last(numeric(b)) ? 1 : 0) : a.localeCompare(b)));
      if (!up) rows.reverse();
      body.append(...rows.map(([, row]) => row));
    }));
  });

  // The model, as a file: it is in the page already.
  document.getElementById("download")?.addEventListener("click", (event) => {
    const text = JSON.stringify(JSON.parse(document.getElementById("model").textContent), null, 1);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = event.currentTarget.dataset.name.replace(/[^\w.-]+/g, "-") + "-model.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  // Paper: light colours, the width of the sheet.
  const panes = [...document.querySelectorAll('[role="tabpanel"]')];
  const onPaper = (yes) => {
    if (yes && !printing) panes.forEach((pane) => { pane.wasHidden = pane.hidden; pane.hidden = false; });
    if (!yes && printing) panes.forEach((pane) => { pane.hidden = pane.wasHidden; });
    printing = yes;
    drawAll();
  };
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
  matchMedia("print").addEventListener("change", (event) => onPaper(event.matches));

  const seen = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.clientWidth && target.drawnAt !== target.clientWidth + "x" + target.clientHeight) draw(target);
  }));
  label();
  drawAll();
  plots.forEach((box) => seen.observe(box));
})();
