// How the answer moves along one column: the interval and the decision, or the lower and upper probability of a class.
"use strict";

import { element, shown } from "./answer.js";

const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [460, 220, 52, 8, 10, 34];

function piece(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function lines(model, answers, decision) {
  if (model.task === "classification") {
    const own = answers.map((a) => a.probability[decision]);
    return { lower: own.map((p) => p[0]), upper: own.map((p) => p[1]), middle: null, what: `Probability of ${decision}` };
  }
  return {
    lower: answers.map((a) => a.interval[0]), upper: answers.map((a) => a.interval[1]),
    middle: answers.map((a) => a.decision), what: `Region and decision of ${model.target}`,
  };
}

function ends(model, { lower, upper }) {
  if (model.task === "classification") return [0, 1];
  const all = [...lower, ...upper].filter((x) => x !== null);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  return most > least ? [least, most] : [least - 1, most + 1];
}

export function curve(model, column, places, answers, here, decision) {
  const own = lines(model, answers, decision);
  const [least, most] = ends(model, own);
  const first = places[0];
  const last = places.at(-1);
  const x = (value) => LEFT + ((WIDE - LEFT - RIGHT) * (value - first)) / (last - first);
  const y = (value) => TOP + ((HIGH - TOP - BOTTOM) * (most - Math.min(Math.max(value, least), most))) / (most - least);
  const path = (values, missing) => places.map((place, i) => `${x(place).toFixed(1)},${y(values[i] ?? missing).toFixed(1)}`);
  const words = `${own.what} along ${column.name}: from ${shown(own.lower[0])} to ${shown(own.upper[0])} at ${shown(first)}, from ${shown(own.lower.at(-1))} to ${shown(own.upper.at(-1))} at ${shown(last)}`;
  const svg = piece("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": words });
  svg.append(piece("polygon", { class: "band", points: [...path(own.upper, most), ...path(own.lower, least).reverse()].join(" ") }));
  if (column.range) {
    const [a, b] = column.range.map(x);
    svg.append(piece("rect", { class: "known", x: a, y: TOP, width: b - a, height: HIGH - TOP - BOTTOM }));
  }
  if (own.middle) svg.append(piece("polyline", { class: "middle", points: path(own.middle, least).join(" ") }));
  svg.append(piece("line", { class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM }));
  if (here !== null) svg.append(piece("line", { class: "here", x1: x(here), x2: x(here), y1: TOP, y2: HIGH - BOTTOM }));
  svg.append(
    piece("text", { x: LEFT - 6, y: TOP + 9, "text-anchor": "end" }, shown(most)),
    piece("text", { x: LEFT - 6, y: HIGH - BOTTOM, "text-anchor": "end" }, shown(least)),
    piece("text", { x: LEFT, y: HIGH - BOTTOM + 14 }, shown(first)),
    piece("text", { x: WIDE - RIGHT, y: HIGH - BOTTOM + 14, "text-anchor": "end" }, shown(last)),
    piece("text", { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - BOTTOM + 28, "text-anchor": "middle" }, column.name),
  );
  const caption = element("figcaption", {}, `${own.what}. The box holds the middle 95 % of the training data; the dashed line is where the slider is.`);
  document.getElementById("curve").replaceChildren(element("figure", {}, svg, caption));
}
