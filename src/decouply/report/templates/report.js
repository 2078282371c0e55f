"use strict";
// Sends a point through the model of the JSON block and shows it on the way. Texts go in as texts, never as HTML.
(() => {
  const byId = (id) => document.getElementById(id);
  const each = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);
  const block = byId("flow");
  const flow = block && JSON.parse(block.textContent);

  const raised = (power) => [...power].map((sign) => (sign === "-" ? "\u207b" : "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[sign])).join("");
  const shown = (value, digits = 4) => {
    if (!Number.isFinite(value)) return "no number";
    const size = Math.abs(value);
    const plain = () => String(size >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits)));
    const short = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(digits - 1) : plain();
    const [mantissa, power] = short.split("e");
    return String(Number(mantissa)).replace("-", "\u2212") + (power ? `\u00b710${raised(power.replace("+", ""))}` : "");
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  // The model

  const between = (first, last, c, u) => {
    const place = ((u - first) / (last - first)) * (c.length - 1);
    const i = clamp(Math.floor(place), 0, c.length - 2);
    return c[i] + (place - i) * (c[i + 1] - c[i]);
  };
  // A step takes numbers from the list v, by their places, and adds one. The first number is the argument t.
  const operations = {
    number: (v, value) => value,
    sum: (v, ...places) => places.reduce((sum, i) => sum + v[i], 0),
    product: (v, ...places) => places.reduce((product, i) => product * v[i], 1),
    clip: (v, i, low, high) => clamp(v[i], low, high),
    reciprocal: (v, i) => 1 / v[i],
    polynomial: (v, i, ...a) => a.reduceRight((sum, c) => sum * v[i] + c, 0),
    table: (v, i, first, last, ...c) => between(first, last, c, v[i]),
  };
  for (const name of ["cos", "sin", "tanh", "exp", "log", "abs"]) operations[name] = (v, i) => Math[name](v[i]);

  function carryOut(steps, t) {
    const v = [t];
    for (const [name, ...rest] of steps) v.push(operations[name](v, ...rest));
    return v[v.length - 1];
  }

  function valueOf(f, u) {
    const t = (u - f.middle) / f.half;
    if (!f.tails) return carryOut(f.steps, t);
    const inside = clamp(t, -1, 1);
    return carryOut(f.steps, inside) + (t - inside) * f.tails[t < 0 ? 0 : 1];
  }

  const times = (W, z) => W.map((row) => row.reduce((sum, w, j) => sum + w * z[j], 0));
  const moved = (start, columns, x) =>
    start.map((s, j) => columns.reduce((sum, c, i) => sum + c[j] * (x[i] - flow.inputs[i].base), s));

  function run(x) {
    const u = [moved(flow.start, flow.columns, x)];
    const z = [];
    flow.functions.forEach((layer, l) => {
      z.push(layer.map((f, j) => valueOf(f, u[l][j])));
      u.push(times(flow.weights[l], z[l]));
    });
    const straight = moved(flow.straight.start, flow.straight.columns, x);
    return { x, u, z, straight, y: u.pop().map((sum, i) => sum + straight[i]) };
  }

  // Of all classes, from the log-odds of the second of two or of each; none for models of numbers.
  function probabilities(odds) {
    if (!flow.classes) return [];
    const all = odds.length === 1 ? [0, odds[0]] : odds;
    const top = Math.max(...all);
    const sizes = all.map((value) => Math.exp(value - top));
    const sum = sizes.reduce((total, size) => total + size, 0);
    return sizes.map((size) => size / sum);
  }

  // The picture

  function place(frame, u, v) {
    const [left, top, width, height, uLow, uHigh, vLow, vHigh] = frame;
    return [
      left + clamp((u - uLow) / (uHigh - uLow), 0, 1) * width,
      top + clamp((vHigh - v) / (vHigh - vLow), 0, 1) * height,
    ];
  }

  function putDot(svg, frame, u, v) {
    const dot = svg.querySelector(".dot");
    const [cx, cy] = place(frame, u, v);
    dot.setAttribute("cx", cx.toFixed(1));
    dot.setAttribute("cy", cy.toFixed(1));
    dot.removeAttribute("hidden");
  }

  const readings = []; // what stands below a function while nobody points at it
  const showReading = (i) => (byId(`card-${i}`).querySelector(".reading").textContent = readings[i]);

  function draw(point) {
    const leaving = (node) =>
      node.kind === "input" ? point.x[node.index] : node.kind === "output" ? point.y[node.index] : point.z[node.layer - 1][node.index];
    const outside = [];
    flow.nodes.forEach((node, i) => {
      if (node.kind === "more") return;
      const group = byId(`node-${i}`);
      const value = leaving(node);
      if (node.kind === "function") {
        const u = point.u[node.layer - 1][node.index];
        const f = flow.functions[node.layer - 1][node.index];
        const slack = 1e-6 * (f.high - f.low);
        const off = u < f.low - slack || u > f.high + slack;
        group.classList.toggle("off", off);
        if (off) outside.push(group.querySelector(".label").textContent);
        putDot(group, node.small, u, value);
        putDot(byId(`card-${i}`), node.large, u, value);
        group.querySelector(".enters").textContent = shown(u, 3);
        readings[i] = `At the mark: u = ${shown(u)}, g(u) = ${shown(value)}`;
        showReading(i);
      }
      group.querySelector(".value").textContent = shown(value, 3);
    });
    point.y.forEach((value, i) => {
      const output = byId(`output-${i}`);
      if (output) output.textContent = shown(value);
    });
    probabilities(point.y).forEach((value, i) => (byId(`probability-${i}`).textContent = `${shown(100 * value, 3)} %`));
    byId("outside").textContent = outside.length
      ? `Outside what the samples visit, so do not rely on it: ${outside.join(", ")}.`
      : "";
  }

  function startSliders() {
    const x = flow.inputs.map((input) => input.base);
    const which = byId("which");
    const sliders = [...document.querySelectorAll(".slider input")];
    const inputOf = (k) => (which ? Number(which.value) : k);
    const showSlider = (slider, k) => {
      const { name, low, high } = flow.inputs[inputOf(k)];
      const value = x[inputOf(k)];
      slider.disabled = !(high > low);
      slider.value = high > low ? (1000 * (value - low)) / (high - low) : 500;
      slider.setAttribute("aria-valuetext", shown(value));
      byId(`number-${k}`).textContent = shown(value);
      const label = slider.parentElement.querySelector("label");
      label.textContent = label.title = name;
    };
    const refresh = () => {
      sliders.forEach(showSlider);
      draw(run(x));
    };
    sliders.forEach((slider, k) =>
      slider.addEventListener("input", () => {
        const { low, high } = flow.inputs[inputOf(k)];
        x[inputOf(k)] = low + (Number(slider.value) / 1000) * (high - low);
        slider.setAttribute("aria-valuetext", shown(x[inputOf(k)]));
        byId(`number-${k}`).textContent = shown(x[inputOf(k)]);
        draw(run(x));
      }),
    );
    if (which) which.addEventListener("change", refresh);
    byId("reset").addEventListener("click", () => {
      flow.inputs.forEach((input, i) => (x[i] = input.base));
      refresh();
    });
    refresh();
  }

  function startReading(node, i) {
    const card = byId(`card-${i}`);
    const svg = card.querySelector("svg");
    const cross = card.querySelector(".cross");
    const [left, top, width, height, low, high] = node.large;
    const f = flow.functions[node.layer - 1][node.index];
    let at = (low + high) / 2;
    const read = (u) => {
      at = clamp(u, low, high);
      const value = valueOf(f, at);
      const [cx, cy] = place(node.large, at, value);
      cross.querySelector(".line").setAttribute("d", `M${cx.toFixed(1)} ${top}v${height}`);
      cross.querySelector(".ring").setAttribute("cx", cx.toFixed(1));
      cross.querySelector(".ring").setAttribute("cy", cy.toFixed(1));
      cross.removeAttribute("hidden");
      let text = `u = ${shown(at)}, g(u) = ${shown(value)}`;
      if (node.band) text += ` \u00b1 ${shown(between(low, high, node.band, at))}`;
      card.querySelector(".reading").textContent = text;
      svg.setAttribute("aria-valuenow", at);
      svg.setAttribute("aria-valuetext", text);
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      read(low + (((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width - left) / width * (high - low));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      const end = { Home: low, End: high }[event.key];
      if (step === undefined && end === undefined) return;
      event.preventDefault();
      read(end === undefined ? at + (step * (high - low)) / 100 : end);
    });
    const leave = () => {
      cross.setAttribute("hidden", "");
      showReading(i);
    };
    svg.addEventListener("focus", () => read(at));
    svg.addEventListener("blur", leave);
    svg.addEventListener("pointerleave", leave);
  }

  // Buttons that copy

  function select(element) {
    const selection = window.getSelection();
    const range = document.createRange();
    range.selectNodeContents(element);
    selection.removeAllRanges();
    selection.addRange(range);
  }

  async function copy(button) {
    const source = byId(button.dataset.copy);
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      select(source);
      if (!document.execCommand("copy")) done = "Selected: press Ctrl+C";
    }
    const label = button.firstChild;
    label.textContent = done;
    setTimeout(() => (label.textContent = "Copy"), 4000);
  }

  each(".copy", (button) => {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  });
  if (flow) {
    each(".needs-script", (element) => (element.hidden = false));
    startSliders();
    flow.nodes.forEach((node, i) => node.kind === "function" && startReading(node, i));
  }
})();
