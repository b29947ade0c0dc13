// A picture for models of pictures: a file, or dots at random, made as small as the model takes them.
"use strict";

import { element } from "./answer.js";

const TYPES = "image/png,image/jpeg";

export function picture(model, place, chosen, complain) {
  const { channels, width, height } = model.image;
  const canvas = element("canvas", { width, height, role: "img", "aria-label": "The picture as the model sees it" });
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const file = element("input", { type: "file", id: "file", accept: TYPES });
  const turned = element("input", { type: "checkbox", id: "turned" });
  const dots = element("button", { type: "button" }, "Dots at random");
  let drawing = null;

  // The largest part of the middle that has the model's proportions.
  function fitted(image) {
    const scale = Math.max(width / image.width, height / image.height);
    const [w, h] = [image.width * scale, image.height * scale];
    brush.fillStyle = "#fff"; // where a picture is transparent
    brush.fillRect(0, 0, width, height);
    brush.drawImage(image, (width - w) / 2, (height - h) / 2, w, h);
  }

  function noise() {
    const own = brush.createImageData(width, height);
    for (let i = 0; i < own.data.length; i += 1) own.data[i] = i % 4 === 3 ? 255 : 256 * Math.random();
    brush.putImageData(own, 0, 0);
  }

  // In the model's colours, and with dark and bright swapped if that is wanted.
  function converted() {
    const own = brush.getImageData(0, 0, width, height);
    for (let i = 0; i < own.data.length; i += 4) {
      let colour = own.data.slice(i, i + 3);
      if (channels === 1) colour = Array(3).fill(0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]);
      for (let j = 0; j < 3; j += 1) own.data[i + j] = turned.checked ? 255 - colour[j] : colour[j];
    }
    brush.putImageData(own, 0, 0);
  }

  function show() {
    if (drawing === null) return;
    drawing();
    converted();
    chosen(canvas.toDataURL("image/png").split(",")[1]);
  }

  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    try {
      const image = await createImageBitmap(file.files[0]);
      drawing = () => fitted(image);
      show();
    } catch {
      complain(new Error(`${file.files[0].name} is no picture that this browser can read`));
    }
  });
  dots.addEventListener("click", () => {
    drawing = noise;
    show();
  });
  turned.addEventListener("change", show);
  place.append(
    element("div", { class: "field" }, element("label", { for: "file" }, `A PNG or JPEG file; it is made ${width} x ${height} pixels small`), file),
    element("div", { class: "field" }, element("label", {}, turned, " Swap dark and bright: ink on paper, for a model of chalk on a board")),
    element("div", { class: "buttons" }, dots),
    element("figure", { class: "picture" }, canvas, element("figcaption", { class: "small" }, "As the model sees it")),
  );
}
