"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, parent = document) => [...parent.querySelectorAll(selector)];

  // ---- light and dark -------------------------------------------------------------------------------------------
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const storage = {
    read() { try { return localStorage.getItem("referee-theme"); } catch { return null; } },
    write(value) { try { localStorage.setItem("referee-theme", value); } catch { /* not allowed on a page opened from a file */ } },
  };
  const chosen = storage.read();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen; // before anything is drawn
  const nameToggle = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `${toggle.textContent} colours`);
  };
  const showTheme = () => {
    nameToggle();
    drawn.forEach(draw);
  };

  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
  // Colours that remain distinct with red-green colour blindness (after Okabe and Ito, and Tol), lighter on dark paper.
  const LIGHT = {
    ink: "#16202c", soft: "#55606e", line: "#e3e7ec", paper: "#ffffff", main: "#0a6ab0", bin: "#0a6ab0",
    category: ["#0072b2", "#d55e00", "#2a9d78", "#aa4499", "#b58900", "#555555", "#882255", "#33bbee", "#332288", "#999933"],
    heat: ["#f3f7fb", "#c9ddee", "#8fbbdd", "#4a90c4", "#1c66a3", "#0b3c6b"], onLow: "#16202c", onHigh: "#ffffff",
  };
  const DARK = {
    ink: "#e8ecf1", soft: "#a3aebb", line: "#2b343e", paper: "#171c22", main: "#6cb8f0", bin: "#2f74a8",
    category: ["#56b4e9", "#f2993a", "#4fd1a5", "#e08bd6", "#e6c84f", "#b9c0c8", "#f08bb0", "#a8ecff", "#a99cf5", "#c8c86a"],
    heat: ["#1b242d", "#1f3d57", "#256089", "#3887bd", "#6fb4e0", "#c4e4f8"], onLow: "#e8ecf1", onHigh: "#10161c",
  };
  const config = (narrow) => {
    const c = isDark() ? DARK : LIGHT;
    const text = { labelColor: c.soft, titleColor: c.soft, labelFont: FONT, titleFont: FONT, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 };
    return {
      background: "transparent", font: FONT,
      view: { stroke: null }, padding: 2,
      axis: { ...text, gridColor: c.line, domainColor: c.line, tickColor: c.line, labelLimit: 120, titlePadding: 8 },
      axisY: { domain: false, ticks: false, labelLimit: narrow ? 138 : 230 },
      legend: { ...text, symbolSize: 90, labelLimit: 160, rowPadding: 3, columns: narrow ? 2 : 0, ...(narrow ? { orient: "top", gradientDirection: "horizontal", titleOrient: "left" } : {}) },
      range: { category: c.category, heatmap: c.heat, ramp: c.heat, symbol: ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"] },
      mark: { color: c.main },
      rect: { tooltip: true },
      style: { // "color", because Vega-Lite sets fill and stroke itself
        bar: { color: c.main, cornerRadiusEnd: 2 },
        bin: { color: c.bin, stroke: c.paper, strokeWidth: 1 },
        "bar-line": { color: c.main, strokeWidth: 2.5 },
        "bar-point": { color: c.main },
        band: { color: c.main, opacity: 0.18 },
        "cell-rect": { stroke: c.paper, strokeWidth: 1 },
        "on-low": { color: c.onLow, fontSize: narrow ? 11 : 12, font: FONT },
        "on-high": { color: c.onHigh, fontSize: narrow ? 11 : 12, font: FONT },
        diagonal: { color: c.ink, strokeWidth: 1.5, strokeDash: [5, 4], opacity: 0.8 },
        marker: { color: c.category[1], stroke: c.paper, strokeWidth: 1 },
        ring: { color: c.ink, strokeWidth: 1.6, opacity: 0.9 },
        way: { color: c.soft, strokeWidth: 2, opacity: 0.6 },
        halo: { color: c.paper, stroke: c.paper, strokeWidth: 4, strokeJoin: "round", font: FONT, fontSize: 13, fontWeight: 600 },
        name: { color: c.ink, font: FONT, fontSize: 13, fontWeight: 600 },
      },
    };
  };

  // ---- charts ---------------------------------------------------------------------------------------------------
  const drawn = new Map(); // element -> specification
  const islands = new Map(); // id -> parsed JSON
  const island = (id) => {
    if (!islands.has(id)) islands.set(id, JSON.parse(document.getElementById(id).textContent));
    return islands.get(id);
  };
  const views = new WeakMap();

  const draw = (spec, element) => {
    drawn.set(element, spec);
    const previous = views.get(element);
    // draw into the inner element: Vega sets a role and a label of its own on it
    return vegaEmbed(element.firstElementChild, structuredClone(spec), {
      ast: true, // interpret expressions instead of compiling them: the page's policy forbids eval
      renderer: "svg", actions: false, config: config(element.clientWidth < 420), tooltip: { theme: "custom" },
    }).then((result) => {
      if (previous) previous.finalize();
      views.set(element, result);
      element.firstElementChild.setAttribute("aria-hidden", "true"); // the outer element has the description
      const save = element.closest("figure").querySelector(".save");
      if (save) save.hidden = false;
      element.dataset.drawn = "yes";
    }).catch((error) => {
      element.classList.add("failed");
      element.textContent = "This chart could not be drawn; its values are in the table.";
      console.error(error);
    });
  };

  const show = (section) => {
    const pictures = island("album");
    for (const image of all("img[data-picture]:not([src])", section)) {
      image.onload = () => { if (image.naturalWidth <= 64) image.classList.add("tiny"); };
      image.src = pictures[image.dataset.picture];
    }
    for (const element of all(".chart[data-chart]:not([data-begun])", section)) {
      element.dataset.begun = "yes";
      draw(island(element.dataset.charts)[element.dataset.chart], element);
    }
  };

  for (const button of all(".save")) {
    button.addEventListener("click", async () => {
      const figure = button.closest("figure");
      const svg = await views.get(figure.querySelector(".chart")).view.toSVG();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
      link.download = `${figure.id}.svg`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  // ---- problems: drawn when opened ------------------------------------------------------------------------------
  const problems = all("details.problem");
  for (const problem of problems) {
    problem.addEventListener("toggle", () => { if (problem.open) show(problem); });
    if (problem.open) show(problem);
  }
  const overview = document.getElementById("headline");
  if (overview) show(overview);
  const openTarget = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const problem = target && target.closest("details.problem");
    if (problem && !problem.open) {
      problem.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  for (const [id, open] of [["open-all", true], ["close-all", false]]) {
    const button = document.getElementById(id);
    if (button) button.addEventListener("click", () => problems.forEach((problem) => { problem.open = open; }));
  }

  // ---- tables: sort and filter ----------------------------------------------------------------------------------
  const value = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind === "number") return cell.dataset.value === "" ? null : Number(cell.dataset.value);
    return cell.textContent;
  };
  const sort = (table, head, output) => {
    const button = head.querySelector("button");
    const kind = button.dataset.kind;
    const current = head.getAttribute("aria-sort");
    const first = kind === "number" ? "descending" : "ascending"; // figures: the highest first
    const next = current === "none" ? first : current === "ascending" ? "descending" : "ascending";
    for (const other of all("th[aria-sort]", table)) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", next);
    const sign = next === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      const x = value(a, head.cellIndex, kind), y = value(b, head.cellIndex, kind);
      if (x === null || y === null) return (x === null) - (y === null); // rows without a figure are last in either order
      return sign * (kind === "number" ? x - y : x.localeCompare(y, "en", { numeric: true }));
    };
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const means = rows.filter((row) => row.classList.contains("mean")); // stay at the bottom
    body.append(...rows.filter((row) => !means.includes(row)).sort(compare), ...means);
    output.textContent = `sorted by ${button.textContent}, ${next}`;
  };
  for (const block of all(".sortable")) {
    const table = block.querySelector("table");
    const output = block.querySelector("output");
    const rows = [...table.tBodies[0].rows];
    const filter = block.querySelector("[data-filter]");
    const group = block.querySelector("select[data-block]");
    const choose = () => {
      const terms = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const words = row.cells[0].textContent.toLowerCase();
        const fits = terms.every((word) => words.includes(word)) && (!group || !group.value || row.dataset.block === group.value);
        row.hidden = !fits;
        shown += fits;
      }
      output.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
    };
    filter.addEventListener("input", choose);
    if (group) group.addEventListener("change", choose);
    block.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    for (const head of all("th[aria-sort]", table)) {
      head.querySelector("button").addEventListener("click", () => sort(table, head, output));
    }
  }

  nameToggle();
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    storage.write(root.dataset.theme);
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
})();
