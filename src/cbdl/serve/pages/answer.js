// An answer for people: the decision, the region, gauges of both kinds of uncertainty, lower and upper probabilities.
"use strict";

const SIGMA = Math.sqrt(2 * Math.PI * Math.E); // a Normal of deviation s has entropy log(s * SIGMA)

const GUESS = 0.001;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function shown(number) {
  if (number === null) return "∞";
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return number.toExponential(2);
  return String(Number(number.toPrecision(4)));
}

function nats(value) {
  return `${value.toFixed(3)} nats`;
}

function percent(part) {
  return `${(100 * Math.min(Math.max(part, 0), 1)).toFixed(2)}%`;
}

function track(...parts) {
  const bar = element("div", { class: "track", "aria-hidden": "true" });
  for (const [kind, left, width] of parts) {
    const piece = element("span", { class: kind });
    piece.style.left = percent(left);
    piece.style.width = percent(width);
    bar.append(piece);
  }
  return bar;
}

function gauge(kind, title, about, value, text, most, floor, note) {
  const share = Math.min(Math.max(value / most, 0), 1);
  const parts = [["sure", 0, share]];
  if (floor) parts.push(["floor", 0, floor / most]);
  const meter = element("div", {
    class: `gauge ${kind}`, role: "meter", id: kind, "aria-label": title, "aria-valuetext": text,
    "aria-valuemin": 0, "aria-valuemax": most.toFixed(3), "aria-valuenow": (share * most).toFixed(4),
  });
  const words = element("div", { class: "words" });
  words.append(element("span", {}, element("strong", {}, title), ` ${about}`), element("span", { class: "value" }, text));
  meter.append(words, track(...parts));
  if (note) meter.append(element("p", { class: "small" }, note));
  return meter;
}

let widest = [1e-9, 1]; // of numbers there is no most: the largest that was seen

function gauges(model, own) {
  const [low, high] = own.epistemic_bracket;
  const hint = own.floor === null ? "" : ` Monte Carlo noise alone would show ${nats(own.floor)} (the mark).`;
  const note = `The paper's bracket: ${low.toFixed(3)} to ${nats(high)}.${hint}`;
  const texts = [nats(own.aleatoric), nats(own.epistemic)];
  let [noise, most, about] = [own.aleatoric, [Math.log(model.classes.length), Math.log(model.classes.length)], "noise in the data"];
  if (model.task !== "classification") {
    noise = Math.exp(own.aleatoric) / SIGMA;
    widest = [Math.max(widest[0], 1.5 * noise), Math.max(widest[1], 1.2 * own.epistemic)];
    [most, about] = [widest, `noise in the data, as of a Normal of deviation ${shown(noise)}`];
  }
  return [
    gauge("noise", "Aleatoric", about, noise, texts[0], most[0]),
    gauge("ignorance", "Epistemic", "ignorance of the model", own.epistemic, texts[1], most[1], own.floor, note),
  ];
}

function bounds(model, own) {
  const table = element("table", {}, element("caption", {}, "Lower and upper probability of every class; ● is in the region"));
  const head = element("tr");
  for (const [title, kind] of [[model.target, ""], ["", "bar"], ["lower", "number"], ["upper", "number"]]) {
    head.append(title ? element("th", { scope: "col", class: kind }, title) : element("td", { class: kind }));
  }
  const body = element("tbody");
  for (const name of model.classes) {
    const [lower, upper] = own.probability[name];
    const inside = own.region.includes(name);
    const row = element("tr", { class: inside ? "inside" : "" });
    row.append(
      element("th", { scope: "row" }, element("span", { class: "sign" }, inside ? "●" : ""), name),
      element("td", { class: "bar" }, track(["sure", 0, lower], ["maybe", lower, upper - lower])),
      element("td", { class: "number" }, lower.toFixed(3)),
      element("td", { class: "number" }, upper.toFixed(3)),
    );
    body.append(row);
  }
  table.append(element("thead", {}, head), body);
  return table;
}

function regionWords(model, own, alpha) {
  const share = `${Math.round(100 * (1 - alpha))} %`;
  if (model.task === "classification") {
    const guess = own.probability[own.decision][0] < GUESS ? " No class is likely to every member: the decision is a guess." : "";
    return `Covers with ${share}: ${own.region.join(", ")}.${guess}`;
  }
  const parts = own.region.map(([a, b]) => `${shown(a)} to ${shown(b)}`);
  return `Covers with ${share}: ${parts.join(", or ")}.`;
}

export function show(model, own, alpha) {
  const decision = document.getElementById("decision");
  const words = own.abstain ? "I abstain" : `${model.target}: ${typeof own.decision === "number" ? shown(own.decision) : own.decision}`;
  if (decision.textContent !== words) decision.textContent = words;
  const gaps = own.unknown.length ? ` Not known: ${own.unknown.slice(0, 5).join(", ")}.` : "";
  document.getElementById("region").textContent = (own.abstain ? "There is more noise than you allow." : regionWords(model, own, alpha)) + gaps;
  document.getElementById("gauges").replaceChildren(...gauges(model, own));
  document.getElementById("bounds").replaceChildren(...(model.task === "classification" ? [bounds(model, own)] : []));
}
