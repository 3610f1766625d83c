// How many tabs of one browser may hold a stream, and how they tell each other who is signed in.
//
// Over HTTP/1.1 a browser opens at most six connections to a server, and a stream takes one for good: with six streams
// nothing could be sent any more. So four tabs hold one, and further tabs wait, visibly, until one of them closes.
// HTTP/2, which a proxy in front brings, has no such limit.

const STREAMS_MAX = 4;

/** Resolves when this tab may open its stream; it keeps that right until it is closed. */
export async function streamSlot(onWait) {
  // Locks exist only on https and localhost.
  if (navigator.locks === undefined || isMultiplexed()) {
    return;
  }
  for (let slot = 0; slot < STREAMS_MAX; slot += 1) {
    if (await held(slot, { ifAvailable: true })) {
      return;
    }
  }
  onWait();
  const others = new AbortController();
  let isTaken = false;
  // When several tabs close at once, several slots may be granted before the rest is given up: one is enough.
  const isWanted = () => !isTaken && (isTaken = true);
  const slots = Array.from({ length: STREAMS_MAX }, (_, slot) => held(slot, { signal: others.signal }, isWanted));
  await Promise.any(slots);
  others.abort();
}

/** Resolves to whether the lock is ours now; it is never given back, unless it is no longer wanted when it comes. */
function held(slot, options, isWanted = () => true) {
  return new Promise((resolve, reject) => {
    navigator.locks.request(`fermata-chat-stream-${slot}`, options, (lock) => {
      const isOurs = lock !== null && isWanted();
      resolve(isOurs);

      return isOurs ? new Promise(() => {}) : undefined;
    }).catch(reject);
  });
}

function isMultiplexed() {
  return ["h2", "h3"].includes(performance.getEntriesByType("navigation")[0]?.nextHopProtocol);
}

/** Signing in or out in one tab concerns all of them. */
export class SessionChannel {
  #channel = new BroadcastChannel("fermata-chat-session");

  /** @param {(sessionId: ?string) => void} onChange */
  constructor(onChange) {
    this.#channel.addEventListener("message", ({ data }) => onChange(data));
  }

  announce(sessionId) {
    this.#channel.postMessage(sessionId);
  }
}
