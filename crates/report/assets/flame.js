// Zoom, search and the line of details of the flame graphs. Each frame is a nested <svg> placed in per cent; without
// this file the graphs are whole and their titles tell the shares.
//
// For tests: `data-zoomed` on the graph names the frame that fills it, `data-found` holds the share that matched.
"use strict";
(() => {
  const percent = (value) => parseFloat(value);
  for (const figure of document.querySelectorAll(".flames")) {
    const graph = figure.querySelector(".flame");
    const said = figure.querySelector(".flame-said");
    const search = figure.querySelector(".flame-search");
    const frames = [...graph.children].map((element) => ({
      element,
      x: percent(element.getAttribute("x")),
      width: percent(element.getAttribute("width")),
      y: Number(element.getAttribute("y")),
      title: element.querySelector("title").textContent,
      name: element.querySelector("title").textContent.replace(/( \([^()]*\))?: [^:]*$/, ""),
    }));
    // Frames too narrow for a letter come without their label, and may be zoomed.
    for (const { element, name } of frames.filter((frame) => !frame.element.querySelector("text"))) {
      const label = element.appendChild(document.createElementNS(element.namespaceURI, "text"));
      label.setAttribute("x", 3);
      label.setAttribute("y", 12);
      label.textContent = name;
    }
    const end = (frame) => frame.x + frame.width;
    const ROUND = 0.004; // places are written with three digits

    function zoom(to) {
      for (const frame of frames) {
        const above = frame.y <= to.y && frame.x >= to.x - ROUND && end(frame) <= end(to) + ROUND;
        const below = frame.y > to.y && frame.x <= to.x + ROUND && end(frame) >= end(to) - ROUND;
        frame.element.style.display = above || below ? "" : "none";
        const [x, width] = below ? [0, 100] : [((frame.x - to.x) / to.width) * 100, (frame.width / to.width) * 100];
        frame.element.setAttribute("x", `${x}%`);
        frame.element.setAttribute("width", `${width}%`);
        frame.element.classList.toggle("path", below);
      }
      graph.dataset.zoomed = to.name;
      said.textContent = to.title;
    }

    /** The share of frames that match; one inside another is counted once. */
    function find() {
      const text = search.value.trim().toLowerCase();
      const hits = frames.filter((frame) => text && frame.title.split(": ")[0].toLowerCase().includes(text));
      for (const frame of frames) frame.element.classList.toggle("hit", hits.includes(frame));
      let share = 0;
      let reached = -Infinity;
      for (const hit of hits.toSorted((a, b) => a.x - b.x || b.width - a.width)) {
        if (hit.x < reached - ROUND) continue;
        share += hit.width;
        reached = end(hit);
      }
      graph.dataset.found = share.toFixed(1);
      said.textContent = text ? `${share.toFixed(1)} % match` : "";
    }

    for (const frame of frames) {
      frame.element.addEventListener("click", () => zoom(frame));
      frame.element.addEventListener("pointerenter", () => (said.textContent = frame.title));
    }
    search.addEventListener("input", find);
    figure.querySelector(".flame-reset").addEventListener("click", () => {
      search.value = "";
      find();
      zoom(frames[0]);
    });
  }
  // A segment of the ledger searches the flame graphs of its cell for its function.
  for (const segment of document.querySelectorAll(".ledger-bar [data-search]")) {
    segment.addEventListener("click", () => {
      const graphs = document.getElementById(segment.dataset.graphs);
      for (const search of graphs.querySelectorAll(".flame-search")) {
        search.value = segment.dataset.search;
        search.dispatchEvent(new Event("input"));
      }
      graphs.scrollIntoView({ behavior: "smooth" });
    });
  }
})();
