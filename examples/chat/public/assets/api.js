// Sends requests to the server. An error response throws an ApiError with the server's message for the user.

const TIMEOUT_MS = 20_000;

export class ApiError extends Error {
  /** @param {number} status HTTP status; 0 if no response arrived */
  constructor(status, code, message, field = null, retryAfterMs = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
    this.retryAfterMs = retryAfterMs;
  }

  /** True if the same request may succeed later without a change by the user. */
  get isTemporary() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

let csrfToken = null;

export function setCsrfToken(token) {
  csrfToken = token;
}

export const get = (path) => request("GET", path);
export const post = (path, data, options) => request("POST", path, data, options);
export const remove = (path) => request("DELETE", path, {});

async function request(method, path, data, { keepalive = false } = {}) {
  const headers = { Accept: "application/json" };
  if (data !== undefined) {
    headers["Content-Type"] = "application/json";
    if (csrfToken !== null) {
      headers["X-CSRF-Token"] = csrfToken;
    }
  }
  let response;
  let body = null;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: data === undefined ? undefined : JSON.stringify(data),
      cache: "no-store",
      credentials: "same-origin",
      keepalive,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (response.status !== 204) {
      body = await response.json();
    }
  } catch {
    if (response === undefined || response.ok) {
      throw new ApiError(0, "unreachable", "The server cannot be reached. Please check your connection.");
    }
  }
  if (!response.ok) {
    throw new ApiError(
      response.status,
      body?.error?.code ?? "failed",
      body?.error?.message ?? `The server answered with an error (${response.status}).`,
      body?.error?.field ?? null,
      Number(response.headers.get("Retry-After") ?? 0) * 1000,
    );
  }

  return body;
}
