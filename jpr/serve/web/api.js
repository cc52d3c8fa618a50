// Requests to the service that sent this page.

const TOKEN = "jpr-token";
const TRIES = 4;

/** What went wrong, as a sentence for the reader. */
export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** The service, with what the page does while it is busy or asks for a token. */
export class Service {
  constructor({ waiting, token }) {
    this.waiting = waiting;
    this.token = token;
  }

  /** What is asked, if the service tells. */
  info() {
    return this.send("/healthz", { method: "GET" });
  }

  /** The reply to a question, and the independent ranking beside it. */
  ask(wanted, signal) {
    const body = JSON.stringify({ ...wanted, compare: true });
    return this.send("/v1/ask", { method: "POST", body, signal, headers: { "Content-Type": "application/json" } });
  }

  /** A corpus made of files. */
  corpus(files, signal) {
    const body = new FormData();
    for (const file of files) body.append("files", file, file.name);
    return this.send("/v1/corpora", { method: "POST", body, signal });
  }

  async send(path, request) {
    for (let attempt = 1; ; attempt += 1) {
      const response = await this.fetched(path, request);
      if (response.ok) return response.json();
      if (response.status === 401 && (await this.token(held() !== null))) continue;
      const again = Number(response.headers.get("Retry-After"));
      if ([429, 503].includes(response.status) && again > 0 && attempt < TRIES) {
        await this.pause(again, request.signal);
        continue;
      }
      throw new Failure(await sentence(response), response.status);
    }
  }

  async fetched(path, { headers = {}, ...request }) {
    const token = held();
    const own = token === null ? headers : { ...headers, Authorization: `Bearer ${token}` };
    try {
      return await fetch(path, { ...request, headers: own, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure("The service does not answer. Is it still running?");
    }
  }

  async pause(seconds, signal) {
    for (let left = Math.ceil(seconds); left > 0; left -= 1) {
      this.waiting(left);
      await new Promise((resolve) => setTimeout(resolve, 1000));
      signal?.throwIfAborted();
    }
    this.waiting(0);
  }
}

/** Keep a token until the tab is closed. */
export function hold(token) {
  sessionStorage.setItem(TOKEN, token);
}

function held() {
  return sessionStorage.getItem(TOKEN);
}

async function sentence(response) {
  try {
    const told = await response.json();
    for (const one of [told.message, told.detail]) {
      if (typeof one === "string" && one) return capital(one);
    }
  } catch {
    // The answer is not JSON: its status has to do.
  }
  return `The service answered with status ${response.status}.`;
}

function capital(text) {
  const first = /^[a-z]+[ ,;:]/.test(text) ? text[0].toUpperCase() : text[0]; // not of a file's name
  return first + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}
