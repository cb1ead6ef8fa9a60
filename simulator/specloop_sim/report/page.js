"use strict";
// A line under the pointer through all charts of a stack, with the figures there, read off the drawn lines.
// The page needs none of it: every marker is a link, and every chart has its limits and labels.
for (const stack of document.querySelectorAll(".stack")) {
  const cursor = stack.appendChild(document.createElement("div"));
  const readout = stack.appendChild(document.createElement("div"));
  cursor.className = "cursor";
  readout.className = "readout";
  for (const one of [cursor, readout]) { one.hidden = true; one.setAttribute("aria-hidden", "true"); }
  const shown = () => [...stack.querySelectorAll("svg.sheet")].filter((svg) => svg.clientWidth > 0);

  const spoken = (seconds) => {
    const rest = Math.round(seconds);
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    let left = rest;
    return parts.map(([unit, name]) => {
      const count = Math.floor(left / unit);
      left -= count * unit;
      return count ? `${count} ${name}` : "";
    }).filter(Boolean).join(" ") || "0 s";
  };
  const when = (seconds) => {
    const epoch = stack.dataset.epoch;
    if (!epoch) return spoken(seconds);
    return `${new Date(1000 * (Number(epoch) + seconds)).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  };
  // Places on a path: [[x, y], ...] for each unbroken part of it.
  const parsed = new Map();
  const parts = (path) => {
    if (!parsed.has(path)) {
      parsed.set(path, path.getAttribute("d").split("M").slice(1).map((part) =>
        part.replace("L", " ").replace("h0", "").trim().split(" ").map((place) => place.split(",").map(Number))));
    }
    return parsed.get(path);
  };
  const heightAt = (path, x) => {
    for (const part of parts(path)) {
      const after = part.findIndex((place) => place[0] >= x);
      if (after > 0) {
        const [one, other] = [part[after - 1], part[after]];
        return one[1] + (other[1] - one[1]) * (x - one[0]) / (other[0] - one[0] || 1);
      }
      if (after === 0 && part[0][0] - x < 1) return part[0][1];
    }
    return null;
  };
  // Places are rounded to a tenth, so a stay reaches a tenth further.
  const levelAt = (path, svg, x) => {
    for (const part of path.getAttribute("d").split("M").slice(1)) {
      const [start, height, end] = part.split(/[,H]/).map(Number);
      if (x >= start - 0.1 && x <= end + 0.1) return svg.dataset.rows.split("\n")[Math.floor((height - svg.dataset.top) / svg.dataset.row)];
    }
    return "changing";
  };
  const figure = (svg, path, x) => {
    if (svg.dataset.rows) return `level: ${levelAt(path, svg, x)}`;
    const y = heightAt(path, x);
    if (y === null) return `${path.dataset.name}: –`;
    const { low, high, top, bottom, unit } = svg.dataset;
    const value = Number(low) + (bottom - y) / (bottom - top) * (high - low);
    return `${path.dataset.name}: ${unit === "share" ? `${Math.round(100 * value)} %` : Number(value.toPrecision(3))}`;
  };

  const hide = () => { cursor.hidden = readout.hidden = true; };
  const show = (seconds) => {
    const sheets = shown();
    if (!sheets.length) return;
    const svg = sheets[0];
    const { left, right, seconds: length } = svg.dataset;
    const x = Number(left) + (right - left) * seconds / length;
    const place = x * svg.clientWidth / svg.viewBox.baseVal.width;
    const lines = sheets.flatMap((one) => [...one.querySelectorAll("[data-name]")].map((path) => figure(one, path, x)));
    cursor.hidden = readout.hidden = false;
    cursor.style.left = `${place}px`;
    readout.textContent = [when(seconds), ...lines].join("\n");
    const room = stack.clientWidth - readout.offsetWidth;
    readout.style.left = `${Math.max(0, place + 14 > room ? Math.min(room, place - readout.offsetWidth - 14) : place + 14)}px`;
  };
  stack.addEventListener("pointermove", (event) => {
    const svg = shown()[0];
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const { left, right, seconds } = svg.dataset;
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    if (x < left || x > right) hide();
    else show((x - left) / (right - left) * seconds);
    readout.style.top = `${Math.max(0, event.clientY - stack.getBoundingClientRect().top + 18)}px`;
  });
  stack.addEventListener("pointerleave", hide);

  // A marker and its sentence light up together.
  for (const marker of stack.querySelectorAll("a.marker")) {
    const sentence = document.getElementById(marker.getAttribute("href").slice(1));
    const light = (on) => sentence && sentence.classList.toggle("lit", on);
    for (const name of ["pointerenter", "focus"]) marker.addEventListener(name, () => light(true));
    for (const name of ["pointerleave", "blur"]) marker.addEventListener(name, () => light(false));
    marker.addEventListener("focus", () => { show(Number(marker.dataset.at)); readout.style.top = "90px"; });
    marker.addEventListener("blur", hide);
  }
}
// Paper has nothing to unfold.
addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
