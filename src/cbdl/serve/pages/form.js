// A form of the model's columns: a slider per number, a list per category, each of which may be not known.
"use strict";

import { element, shown } from "./answer.js";

const BEYOND = 0.5; // sliders go so much further than the training data, in parts of their range
const POINTS = 33;

function reach(column) {
  const [low, high] = column.range ?? [-1, 1];
  const wide = high - low || Math.abs(high) || 1;
  const [least, most] = [low - BEYOND * wide, high + BEYOND * wide];
  return column.whole ? [Math.floor(least), Math.ceil(most), 1] : [least, most, wide / 200];
}

function number(column, id) {
  const [least, most, step] = reach(column);
  const slider = element("input", { type: "range", id, min: least, max: most, step: column.whole ? step : "any" });
  slider.value = column.typical ?? (least + most) / 2;
  const output = element("output", { for: id });
  const say = () => { output.textContent = shown(slider.valueAsNumber); };
  slider.addEventListener("input", say);
  slider.addEventListener("keydown", (event) => { // "any" has steps of 1 for keys
    const turn = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!turn || column.whole) return;
    event.preventDefault();
    slider.value = slider.valueAsNumber + turn * 2 * step;
    slider.dispatchEvent(new Event("input"));
  });
  say();
  return { control: slider, output, read: () => slider.valueAsNumber };
}

function category(column, id) {
  const list = element("select", { id });
  for (const level of column.levels) list.append(element("option", { value: level }, level));
  list.value = column.typical ?? column.levels[0];
  return { control: list, output: "", read: () => list.value };
}

function date(column, id) {
  const text = element("input", { type: "text", id, placeholder: column.format });
  text.value = column.typical ?? "";
  return { control: text, output: "", read: () => text.value || null };
}

const KINDS = { number, category, date };

function field(column, index, changed) {
  const id = `column-${index}`;
  const { control, output, read } = KINDS[column.kind](column, id);
  const gone = element("input", { type: "checkbox", id: `${id}-unknown` });
  const range = column.range ? ` (most training rows: ${shown(column.range[0])} to ${shown(column.range[1])})` : "";
  const row = element("div", { class: "field" });
  row.append(
    element("label", { for: id }, column.name), output, control,
    element("label", { class: "unknown" }, gone, ` not known${range}`),
  );
  gone.addEventListener("input", () => {
    control.disabled = gone.checked;
    changed(column);
  });
  for (const kind of ["input", "focus"]) control.addEventListener(kind, () => changed(column));
  return { row, read: () => (gone.checked ? null : read()) };
}

export function form(model, home, changed) {
  let last = model.columns.find((column) => column.kind === "number") ?? null;
  const fields = {};
  const tell = (column) => {
    if (column?.kind === "number") last = column;
    const row = {};
    for (const name of Object.keys(fields)) row[name] = fields[name].read();
    changed(row, last);
  };
  model.columns.forEach((column, i) => { fields[column.name] = field(column, i, tell); });
  home.append(
    element("p", { class: "note" }, "Sliders go beyond the training data: see what the model knows there. What is not known is answered for all that it could be."),
    ...Object.values(fields).map((own) => own.row),
  );
  tell(null);
}

// The rows along one column, everything else as it is.
export function along(row, column) {
  const [least, most] = reach(column);
  const places = Array.from({ length: POINTS }, (_, i) => least + ((most - least) * i) / (POINTS - 1));
  return { places, rows: places.map((x) => ({ ...row, [column.name]: x })) };
}
