// Requests to the service that sent this page.

const TOKEN = "jpr-token";
const TRIES = 4;

/** An error with a message for the user. */
export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** The service; `waiting(seconds)` is called while it is busy, `token(wasWrong)` to get a token. */
export class Service {
  constructor({ waiting, token }) {
    this.waiting = waiting;
    this.token = token;
  }

  /** The version, the model and the corpus of the service. */
  info() {
    return this.send("/healthz", { method: "GET" });
  }

  /** The reply to a question, and the independent ranking beside it. */
  ask(request, signal) {
    const body = JSON.stringify({ ...request, compare: true });
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
      if (response.status === 401 && (await this.token(storedToken() !== null))) continue;
      const again = Number(response.headers.get("Retry-After"));
      if ([429, 503].includes(response.status) && again > 0 && attempt < TRIES) {
        await this.pause(again, request.signal);
        continue;
      }
      throw new Failure(await sentence(response), response.status);
    }
  }

  async fetched(path, { headers = {}, ...request }) {
    const token = storedToken();
    const own = token === null ? headers : { ...headers, Authorization: `Bearer ${token}` };
    try {
      return await fetch(path, { ...request, headers: own, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure("The service does not respond. Is it still running?");
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

/** Store a token until the tab is closed. */
export function storeToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function storedToken() {
  return sessionStorage.getItem(TOKEN);
}

async function sentence(response) {
  try {
    const body = await response.json();
    for (const one of [body.message, body.detail]) {
      if (typeof one === "string" && one) return capital(one);
    }
  } catch {
    // The body is not JSON: the status is all there is.
  }
  return `The service returned status ${response.status}.`;
}

function capital(text) {
  const first = /^[a-z]+[ ,;:]/.test(text) ? text[0].toUpperCase() : text[0]; // not a file name
  return first + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}
