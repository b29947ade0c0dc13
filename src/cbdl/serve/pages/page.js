// The page: asks what the model is, shows a pad or a form for it, and its answers as they change.
"use strict";

import { show } from "./answer.js";
import { curve } from "./curve.js";
import { along, form } from "./form.js";
import { pad } from "./pad.js";
import { picture } from "./picture.js";
import { asker, fetched, setToken } from "./service.js";

const at = (id) => document.getElementById(id);
let model;
let subject = null; // what is asked about: rows or images of a question
let column = null;
let options = {};

function complain(error) {
  at("problem").textContent = error.message;
  at("problem").hidden = false;
}

function counted(name) {
  at(name).dataset.count = Number(at(name).dataset.count ?? 0) + 1;
}

// The rows along the column that was touched last are asked for when the answer is there: it must not wait for them.
const sweep = asker((content, { row: asked, column, places, own }) => {
  curve(model, column, places, content.answers, asked[column.name], own.decision);
  counted("sweep");
}, complain);

const ask = asker((content, { question, column }) => {
  at("problem").hidden = true;
  if (subject === null) return; // cleared meanwhile
  const [own] = content.answers;
  show(model, own, question.alpha);
  counted("answer");
  if (column) sweep(line(question, column, own));
}, complain);

function line({ rows, ...others }, column, own) {
  const { places, rows: all } = along(rows[0], column);
  return { question: { rows: all, ...others }, row: rows[0], column, places, own };
}

function changed() {
  if (subject !== null) ask({ question: { ...subject, ...options }, column });
}

function asked(about) {
  subject = about;
  changed();
}

function empty(words) {
  subject = null;
  at("decision").textContent = words;
  for (const id of ["region", "gauges", "bounds"]) at(id).replaceChildren();
}

function setOptions() {
  const share = at("alpha").valueAsNumber;
  at("alpha-shown").textContent = `${Math.round(100 * share)} %`;
  at("phi").disabled = !at("may-abstain").checked;
  at("phi-shown").textContent = at("may-abstain").checked ? `${at("phi").valueAsNumber.toFixed(2)} nats` : "off";
  options = { alpha: Number((1 - share).toFixed(4)) };
  if (at("may-abstain").checked) options.phi = at("phi").valueAsNumber;
  changed();
}

function start() {
  const what = model.task === "classification" ? `one of ${model.classes.length} classes` : "a number";
  const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const whence = model.columns.length ? many(model.columns.length, "column") : "a picture";
  at("about").textContent = `A credal set of ${many(model.members.length, "Bayesian network")} that predicts ${model.target}, ${what}, from ${whence}.`;
  const most = model.task === "classification" ? Math.log(model.classes.length) : 10;
  at("phi").max = most.toFixed(2);
  at("phi").value = model.task === "classification" ? 0.3 * most : 5;
  at("room").hidden = false;
  for (const id of ["alpha", "phi", "may-abstain"]) at(id).addEventListener("input", setOptions);
  setOptions();
  if (model.image?.pixels) {
    pad(model, at("input"), (drawn) => {
      if (drawn === null) empty("Draw something");
      else asked({ rows: [drawn] });
    });
    return;
  }
  if (model.image) {
    empty("Choose a picture");
    picture(model, at("input"), (chosen) => asked({ images: [chosen] }), complain);
    return;
  }
  at("room").classList.add("with-form");
  form(model, at("input"), (filled, touched) => {
    column = touched;
    at("sweep").hidden = column === null;
    asked({ rows: [filled] });
  });
}

async function enter() {
  try {
    model = await fetched("/v1/model");
  } catch (error) {
    at("door").hidden = error.status !== 401;
    if (error.status === 401) at("token").focus();
    complain(error);
    return;
  }
  at("problem").hidden = true;
  at("door").hidden = true;
  start();
}

at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(at("token").value.trim());
  enter();
});

enter();
