// Curves as SVG: a thin line for every run, and for an arm with several the mean with its band.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const ROOM = { top: 12, right: 12, bottom: 44, left: 58 };

function drawn(name, attributes, ...inside) {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...inside);
  return made;
}

const short = (value) => {
  const size = Math.abs(value);
  const [unit, name] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([from]) => size >= 0.9995 * from) || [1, ""];
  const scaled = value / unit;
  return (size !== 0 && size < 1e-3 ? value.toExponential(0) : String(Number(scaled.toPrecision(3)))) + name;
};

// Round numbers from low to high, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let at = first; at * step <= high + 1e-9 * step; at += 1) found.push(at * step);
  return found;
}

function powers(low, high, count) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  if (last <= first) return [low, high];
  const every = Math.max(1, Math.ceil((last - first) / count));
  const found = [];
  for (let at = first; at <= last; at += every) found.push(10 ** at);
  return found;
}

// What the axes have to show: all curves that are not hidden.
function extent(curves, hidden) {
  const x = [], y = [];
  curves.variants.filter((variant) => !hidden.has(variant.name)).forEach((variant) => {
    variant.runs.forEach((run) => run.points.forEach(([at, value]) => { x.push(at); y.push(value); }));
    variant.mean.forEach((point) => { y.push(point[1]); });
  });
  if (!x.length) return null;
  const ends = (values) => values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
  const [left, right] = [curves.log ? ends(x)[0] : 0, ends(x)[1]];
  let [low, high] = ends(y);
  if (curves.log) [low, high] = [low / 1.3, high * 1.3];
  else { const air = 0.06 * (high - low) || 1; [low, high] = [low >= 0 && low < air ? 0 : low - air, high + air]; }
  return { left, right: right > left ? right : left + 1, low, high };
}

function scales(size, span, log) {
  const across = size.width - ROOM.left - ROOM.right;
  const down = size.height - ROOM.top - ROOM.bottom;
  const level = log ? Math.log10 : (value) => value;
  const clamp = (value) => Math.min(Math.max(value, -0.2), 1.2);
  return {
    x: (value) => ROOM.left + (across * (value - span.left)) / (span.right - span.left),
    y: (value) => ROOM.top + down * (1 - clamp((level(Math.max(value, log ? 1e-300 : -Infinity)) - level(span.low)) / (level(span.high) - level(span.low)))),
    back: (place) => span.left + ((place - ROOM.left) * (span.right - span.left)) / across,
    bottom: ROOM.top + down,
    right: ROOM.left + across,
  };
}

function axes(curves, span, scale, size) {
  const made = drawn("g", { "aria-hidden": "true" });
  const steps = curves.log ? powers(span.low, span.high, 6) : ticks(span.low, span.high, size.height / 60);
  steps.forEach((value) => {
    const y = scale.y(value).toFixed(1);
    made.append(drawn("line", { class: "grid", x1: ROOM.left, x2: scale.right, y1: y, y2: y }));
    made.append(drawn("text", { x: ROOM.left - 8, y, dy: "0.32em", "text-anchor": "end" }, short(value)));
  });
  ticks(span.left, span.right, size.width / 110).forEach((value) => {
    made.append(drawn("text", { x: scale.x(value).toFixed(1), y: scale.bottom + 18, "text-anchor": "middle" }, short(value)));
  });
  made.append(drawn("line", { class: "axis", x1: ROOM.left, x2: scale.right, y1: scale.bottom, y2: scale.bottom }));
  made.append(drawn("text", { x: (ROOM.left + scale.right) / 2, y: scale.bottom + 38, "text-anchor": "middle" }, curves.x));
  const middle = (ROOM.top + scale.bottom) / 2;
  const turned = { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle" };
  made.append(drawn("text", turned, curves.y));
  return made;
}

// A band may reach beyond the axes, which are made for the curves.
function frame(scale) {
  const shape = { x: ROOM.left, y: ROOM.top - 2, width: scale.right - ROOM.left + 2, height: scale.bottom - ROOM.top + 3 };
  return drawn("clipPath", { id: "inside" }, drawn("rect", shape));
}

const path = (points, scale, column = 1) =>
  points.map((point, at) => `${at ? "L" : "M"}${scale.x(point[0]).toFixed(1)} ${scale.y(point[column]).toFixed(1)}`).join("");

function series(variant, colour, scale, isHidden) {
  const made = drawn("g", { class: `series ${colour}${isHidden ? " off" : ""}` });
  made.dataset.variant = variant.name;
  if (variant.mean.length) {
    const back = [...variant.mean].reverse();
    const around = `${path(variant.mean, scale, 3)}${path(back, scale, 2).replace("M", "L")}Z`;
    made.append(drawn("path", { class: "band", d: around }));
  }
  variant.runs.forEach((run) => {
    const dot = run.points.length === 1;
    const [x, y] = run.points[0];
    const look = variant.mean.length || variant.runs.length > 1 ? "one" : "one alone";
    made.append(dot
      ? drawn("circle", { class: look, cx: scale.x(x), cy: scale.y(y), r: 2.5, fill: "currentColor" })
      : drawn("path", { class: look, d: path(run.points, scale) }));
  });
  if (variant.mean.length) made.append(drawn("path", { class: "mean", d: path(variant.mean, scale) }));
  return made;
}

// The value of a curve at x, between its points; null outside.
function valueAt(points, x) {
  const after = points.findIndex((point) => point[0] >= x);
  if (after < 0 || (after === 0 && points[0][0] > x)) return null;
  if (after === 0) return points[0].slice(1);
  const [one, other] = [points[after - 1], points[after]];
  const share = (x - one[0]) / (other[0] - one[0] || 1);
  return one.slice(1).map((value, at) => value + share * (other[at + 1] - value));
}
