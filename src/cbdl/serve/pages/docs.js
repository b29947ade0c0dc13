// The OpenAPI description for people, without anything from elsewhere; a question to try.
"use strict";

import { element } from "./answer.js";
import { fetched, setToken } from "./service.js";

const at = (id) => document.getElementById(id);

function resolved(schema, whole) {
  if (!schema?.$ref) return schema;
  return schema.$ref.split("/").slice(1).reduce((part, key) => part[key], whole);
}

function pretty(schema) {
  return element("pre", { tabindex: 0 }, JSON.stringify(schema, null, 2));
}

function folded(title, content) {
  return element("details", {}, element("summary", {}, title), content);
}

function operation(path, method, own, whole) {
  const section = element("section", { class: "operation" });
  section.append(element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)), element("p", {}, own.description ?? own.summary));
  const body = own.requestBody?.content?.["application/json"]?.schema;
  if (body) section.append(folded("Body", pretty(body)));
  const table = element("table", {}, element("caption", {}, "Answers"));
  for (const [status, reply] of Object.entries(own.responses)) {
    table.append(element("tr", {}, element("th", { scope: "row" }, status), element("td", {}, reply.description)));
  }
  section.append(table);
  const answer = own.responses["200"]?.content?.["application/json"]?.schema;
  if (answer) {
    const main = resolved(answer, whole);
    const item = resolved(main?.properties?.answers?.items, whole);
    section.append(folded("Answer 200", pretty(item ?? main)));
  }
  return section;
}

async function send() {
  let question;
  try {
    question = JSON.parse(at("body").value);
  } catch (error) {
    at("reply").textContent = `This is not JSON: ${error.message}`;
    return;
  }
  try {
    at("reply").textContent = JSON.stringify(await fetched("/v1/predict", question), null, 2);
  } catch (error) {
    at("reply").textContent = `${error.status}: ${error.message}`;
  }
}

async function enter() {
  let whole;
  try {
    whole = await fetched("/openapi.json");
  } catch (error) {
    at("door").hidden = error.status !== 401;
    at("problem").textContent = error.message;
    at("problem").hidden = false;
    return;
  }
  at("problem").hidden = at("door").hidden = true;
  at("about").textContent = whole.info.description;
  const example = whole.paths["/v1/predict"].post.requestBody.content["application/json"].example;
  at("body").value = JSON.stringify(example, null, 1);
  const secret = whole.components?.securitySchemes ? " -H 'Authorization: Bearer TOKEN'" : "";
  const quoted = JSON.stringify(example).replaceAll("'", "'\\''");
  at("curl").textContent = `curl ${location.origin}/v1/predict -H 'Content-Type: application/json'${secret} -d '${quoted}'`;
  at("try").hidden = false;
  at("operations").replaceChildren(
    ...Object.entries(whole.paths).flatMap(([path, own]) => Object.entries(own).map(([method, op]) => operation(path, method, op, whole))),
  );
}

at("send").addEventListener("click", send);
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(at("token").value.trim());
  enter();
});

enter();
