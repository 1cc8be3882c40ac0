/* Requests to the server. An error is a Problem, whose message is a sentence for the user. */

import { words } from "./words.js";

/** Of a request that is answered in the same way however often it is sent. */
const FINAL = [400, 404, 413, 422];

export class Problem extends Error {
  /** `later`: the server says when to ask again. */
  constructor(status, sentence, { later = false } = {}) {
    super(sentence);
    this.status = status;
    this.passes = later || !FINAL.includes(status);
  }
}

const TRIES = 4;
const TRIES_TO_CHANGE = 60;
/** Changes wait for jobs that may take an hour; each time the server has waited half a minute itself. */

/** The JSON that a request is answered with, and its status. */
async function asked(address, options = {}, onWait = null) {
  const send = () => reached(() => fetch(address, options));
  const response = await patiently(send, (answer) => answer.headers.get("Retry-After"), onWait);
  return { status: response.status, content: await contentOf(response) };
}

/**
 * The answer that `send` gets. A busy server is asked again after the seconds that it states; one whose collection is
 * being changed by others only if somebody is told that it is waited for, by `onWait`.
 */
async function patiently(send, seconds, onWait) {
  for (let tried = 1; ; tried++) {
    const answer = await send();
    const later = Number(seconds(answer));
    const waits = answer.status === 503 && later && onWait && tried < TRIES_TO_CHANGE;
    if (!waits && !(answer.status === 429 && tried < TRIES)) return answer;
    if (waits) onWait();
    await pause(1000 * (later || 1));
  }
}

async function reached(send) {
  try {
    return await send();
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem(0, words.unreachable);
  }
}

async function contentOf(response) {
  const content = await response.json().catch(() => null);
  if (response.ok && content) return content;
  const later = response.headers.has("Retry-After");
  throw new Problem(response.status, content?.detail ?? words.failed(response.status), { later });
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const part = encodeURIComponent;
const get = async (address, signal) => (await asked(address, { signal })).content;
const withFields = (address, fields) => {
  const given = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== "" && value !== undefined));
  return String(given) ? `${address}?${given}` : address;
};

export async function search(fields, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) if (value !== "" && value !== undefined) body.append(name, value);
  return (await asked("/api/search", { method: "POST", body, signal })).content;
}

export const explain = (query, id, fields, signal) =>
  get(withFields(`/api/explain/${part(query)}/${part(id)}`, fields), signal);
export const images = (fields, signal) => get(withFields("/api/images", fields), signal);
export const info = () => get("/api/info");
export const folders = async () => (await get("/api/folders")).folders;

export const jobs = async () => (await get("/api/jobs")).jobs;
export const job = (id) => get(`/api/jobs/${part(id)}`);
export const cancelJob = async (id) => (await asked(`/api/jobs/${part(id)}`, { method: "DELETE" })).content;
export async function startJob(fields) {
  const headers = { "Content-Type": "application/json" };
  return (await asked("/api/jobs", { method: "POST", headers, body: JSON.stringify(fields) })).content;
}

/** Groups of duplicates, or the job that looks for them: {groups} or {job}. */
export async function duplicates(fields, signal) {
  const { status, content } = await asked(withFields("/api/duplicates", fields), { signal });
  return status === 202 ? { job: content } : content;
}

export const remove = async (id, onWait) => (
  await asked(`/api/images/${id}`, { method: "DELETE" }, onWait)).content;
export const undo = async (token, onWait) => (
  await asked(`/api/undo/${part(token)}`, { method: "POST" }, onWait)).content;

/** Add an image. `onProgress` is called with the part that was sent, from 0 to 1: fetch does not tell it. */
export async function upload(file, onProgress, onWait) {
  const seconds = (answer) => answer.getResponseHeader("Retry-After");
  const request = await patiently(() => sent(file, onProgress), seconds, onWait);
  const content = parsed(request.responseText);
  if ([200, 201].includes(request.status) && content) return content;
  throw new Problem(request.status, content?.failed?.[0]?.reason ?? content?.detail ?? words.failed(request.status));
}

function sent(file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) => onProgress(event.loaded / Math.max(1, event.total));
    request.onerror = () => reject(new Problem(0, words.unreachable));
    request.onload = () => resolve(request);
    const body = new FormData();
    body.append("files", file);
    request.open("POST", "/api/images");
    request.send(body);
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
