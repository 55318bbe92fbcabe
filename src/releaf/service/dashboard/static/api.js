// API requests with retries. An error response is thrown, with its status and message.
import { notice } from "./dom.js";

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const LONGEST_WAIT = 8;
const pause = (seconds) => new Promise((resolve) => {
  setTimeout(resolve, 1000 * seconds);
  addEventListener("online", resolve, { once: true });
});

export const address = (name, ...parts) => ["/v1/experiments", name, ...parts].map((part, place) =>
  place === 0 ? part : encodeURIComponent(part)).join("/");

export const get = (path) => request("GET", path);
export const remove = (path) => request("DELETE", path, undefined, true);
/** `again`: whether to retry a request whose outcome is unknown. */
export const post = (path, body, again = false, headers = {}) => request("POST", path, body, again, headers);

async function request(method, path, body, again = method === "GET", headers = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await sent(method, path, body, headers);
    if (response?.ok) {
      notice("outage", null);
      return response.json();
    }
    if (response?.status === 401) return login();
    const problem = await refusal(response);
    if (!again || ![0, 429, 503].includes(problem.status)) throw problem;
    const asked = Number(response?.headers.get("Retry-After"));
    const wait = Math.min(asked > 0 ? asked : 2 ** (attempt - 1), LONGEST_WAIT);
    notice("outage", `${problem.message} Trying again in ${wait} s.`, "warn");
    await pause(wait);
  }
}

async function sent(method, path, body, headers) {
  const options = { method, headers: { Accept: "application/json", ...headers } };
  if (method !== "GET") options.headers["Content-Type"] = "application/json";
  if (body !== undefined) options.body = JSON.stringify(body);
  try {
    return await fetch(path, options);
  } catch {
    return null;
  }
}

async function refusal(response) {
  if (!response) return new Refused(0, "unreachable", "The service does not answer.");
  try {
    const { error } = await response.json();
    return new Refused(response.status, error.code, sentence(error.message));
  } catch {
    return new Refused(response.status, "unknown", `The service answered with status ${response.status}.`);
  }
}

const sentence = (text) => (/[.!?…]$/.test(text) ? text : `${text}.`);

function login() {
  location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
  return new Promise(() => {}); // nothing goes on until the next page
}
