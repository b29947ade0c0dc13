// A pad to draw on, for models of scikit-learn's digits: 8 x 8 pixels from 0 to 16. As those were made: the drawing is
// fitted into 32 x 32 dots, with strokes so wide that it has their ink, and a pixel counts the dots of its 4 x 4.
"use strict";

import { element } from "./answer.js";

const DOTS = 32;
const BLOCK = 4;
const INK = 312; // dots: the mean of scikit-learn's 1,797 digits; means of the ten classes are 303 to 330, so a one has thick strokes
const WIDTHS = [2.5, 10.5];
const STEP = 1 / 24;

const EXAMPLES = {
  "A three": [[[0.28, 0.2], [0.4, 0.1], [0.58, 0.1], [0.7, 0.2], [0.68, 0.36], [0.56, 0.46], [0.45, 0.48], [0.58, 0.51], [0.7, 0.62], [0.7, 0.78], [0.58, 0.89], [0.4, 0.9], [0.27, 0.8]]],
  "A zero": [[[0.5, 0.1], [0.35, 0.2], [0.28, 0.45], [0.3, 0.7], [0.42, 0.89], [0.58, 0.89], [0.7, 0.7], [0.72, 0.45], [0.65, 0.2], [0.5, 0.1]]],
  "A letter": [[[0.15, 0.9], [0.5, 0.1], [0.85, 0.9]], [[0.28, 0.6], [0.72, 0.6]]],
};

function scribble() {
  const points = [];
  for (let i = 0; i < 26; i += 1) points.push([0.08 + 0.84 * Math.random(), 0.08 + 0.84 * Math.random()]);
  return [points];
}

function context(size) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  return canvas.getContext("2d", { willReadFrequently: true });
}

function drawn(brush, strokes, width, place) {
  brush.lineWidth = width;
  brush.lineCap = brush.lineJoin = "round";
  brush.strokeStyle = "#000";
  for (const stroke of strokes) {
    brush.beginPath();
    stroke.forEach((point, i) => {
      const [x, y] = place(point);
      if (i === 0) brush.moveTo(x, y);
      else brush.lineTo(x, y);
    });
    if (stroke.length === 1) brush.lineTo(...place([stroke[0][0] + 1e-3, stroke[0][1]]));
    brush.stroke();
  }
}

// 32 x 32 booleans: the drawing with strokes of a width, as large as it fits.
function dotted(strokes, width) {
  const dots = context(DOTS);
  const all = strokes.flat();
  const [xs, ys] = [all.map((p) => p[0]), all.map((p) => p[1])];
  const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const side = Math.max(box[1] - box[0], box[3] - box[2], 0.2);
  const room = DOTS - width;
  drawn(dots, strokes, width, ([x, y]) => [
    DOTS / 2 + ((x - (box[0] + box[1]) / 2) * room) / side,
    DOTS / 2 + ((y - (box[2] + box[3]) / 2) * room) / side,
  ]);
  const colours = dots.getImageData(0, 0, DOTS, DOTS).data;
  return Array.from({ length: DOTS * DOTS }, (_, i) => colours[4 * i + 3] > 127);
}

function inked(strokes) {
  let [thin, thick] = WIDTHS;
  let dots = dotted(strokes, thick);
  for (let i = 0; i < 5; i += 1) {
    const width = (thin + thick) / 2;
    dots = dotted(strokes, width);
    if (dots.filter(Boolean).length > INK) thick = width;
    else thin = width;
  }
  return dots;
}

export function pixels(strokes) {
  const side = DOTS / BLOCK;
  const own = Array.from({ length: side }, () => Array(side).fill(0));
  if (!strokes.length) return own;
  inked(strokes).forEach((black, i) => {
    if (black) own[Math.floor(i / DOTS / BLOCK)][Math.floor((i % DOTS) / BLOCK)] += 1;
  });
  return own;
}

export function pad(model, home, changed) {
  let strokes = [];
  let pen = [0.5, 0.5];
  let down = false;
  const canvas = element("canvas", {
    id: "pad", width: 320, height: 320, tabindex: 0, role: "application",
    "aria-label": "Pad to draw a digit. Arrow keys move the pen, space puts it down or lifts it, Delete clears.",
  });
  const seen = element("canvas", { id: "seen", width: 8, height: 8, role: "img", "aria-label": "What the model sees: 8 by 8 pixels" });
  const brush = canvas.getContext("2d");

  function paint() {
    brush.clearRect(0, 0, 320, 320);
    drawn(brush, strokes, 26, ([x, y]) => [320 * x, 320 * y]);
    if (document.activeElement === canvas && canvas.matches(":focus-visible")) {
      brush.beginPath();
      brush.lineWidth = 3;
      brush.strokeStyle = down ? "#d55e00" : "#0072b2";
      brush.arc(320 * pen[0], 320 * pen[1], 10, 0, 7);
      brush.stroke();
    }
    const view = seen.getContext("2d");
    const own = pixels(strokes);
    view.clearRect(0, 0, 8, 8);
    own.forEach((line, y) => line.forEach((value, x) => {
      view.fillStyle = `rgb(0 0 0 / ${value / model.image.most})`;
      view.fillRect(x, y, 1, 1);
    }));
    return own;
  }

  function tell() {
    const own = paint();
    if (!strokes.length) {
      changed(null);
      return;
    }
    const row = {};
    for (const [name, [y, x]] of Object.entries(model.image.pixels)) row[name] = own[y][x];
    changed(row);
  }

  function put(drawing) {
    strokes = drawing.map((stroke) => stroke.map((point) => [...point]));
    pen = [0.5, 0.5];
    down = false;
    tell();
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pen = at(event);
    down = false;
    strokes.push([pen]);
    tell();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!canvas.hasPointerCapture(event.pointerId) || !strokes.length) return;
    for (const part of event.getCoalescedEvents?.() ?? [event]) strokes.at(-1).push((pen = at(part)));
    tell();
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in moves) {
      const [dx, dy] = moves[event.key];
      pen = [Math.min(1, Math.max(0, pen[0] + dx * STEP)), Math.min(1, Math.max(0, pen[1] + dy * STEP))];
      if (down) strokes.at(-1).push(pen);
    } else if (event.key === " ") {
      down = !down;
      if (down) strokes.push([pen]);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      put([]);
    } else return;
    event.preventDefault();
    tell();
  });
  for (const kind of ["focus", "blur"]) canvas.addEventListener(kind, paint);

  const buttons = element("div", { class: "buttons" });
  const made = { ...EXAMPLES, "A scribble": null, Clear: [] };
  for (const [title, drawing] of Object.entries(made)) {
    const button = element("button", { type: "button" }, title);
    button.addEventListener("click", () => put(drawing ?? scribble()));
    buttons.append(button);
  }
  home.append(
    element("p", { class: "note" }, "Draw a digit with the pointer or a finger. With the keyboard: arrows move the pen, space puts it down or lifts it, Delete clears."),
    element("div", { class: "pad" }, canvas, element("figure", {}, seen, element("figcaption", {}, "What the model sees"))),
    buttons,
  );
  put(EXAMPLES["A three"]);
}
