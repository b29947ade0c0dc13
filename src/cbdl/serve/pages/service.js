// The service as functions: requests with the token, one question at a time, the newest first.
"use strict";

let token = "";

export function setToken(word) {
  token = word;
}

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function fetched(path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The service does not answer; is it still running?");
  }
  // the service's own words are for programs
  if (response.status === 401) throw new Refused(401, token ? "That is not the token of this service." : "This service wants to know its token.");
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, content.detail ?? `The service answers ${response.status}.`);
  return content;
}

// While a question is under way only the newest of those that come is kept: the answer follows the hand.
export function asker(show, complain) {
  let busy = false;
  let next = null;
  async function go(wanted) {
    busy = true;
    try {
      show(await fetched("/v1/predict", wanted.question), wanted);
    } catch (error) {
      if (error.status === 429 || error.status === 503) {
        await new Promise((done) => setTimeout(done, 1000));
        next ??= wanted;
      } else complain(error);
    }
    busy = false;
    if (next) {
      const newest = next;
      next = null;
      go(newest);
    }
  }
  return (wanted) => {
    if (busy) next = wanted;
    else go(wanted);
  };
}
