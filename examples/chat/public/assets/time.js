// Formats times in the language and time zone of the browser.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dayWithYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });

/** Returns the local calendar day as a string that sorts by date. */
export function dayKey(timeMs) {
  const date = new Date(timeMs);

  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
}

export function dayName(timeMs, nowMs = Date.now()) {
  const yesterday = new Date(nowMs);
  yesterday.setDate(yesterday.getDate() - 1);
  if (dayKey(timeMs) === dayKey(nowMs)) {
    return "Today";
  }
  if (dayKey(timeMs) === dayKey(yesterday.getTime())) {
    return "Yesterday";
  }

  return (new Date(timeMs).getFullYear() === new Date(nowMs).getFullYear() ? day : dayWithYear).format(timeMs);
}

export function timeNode(timeMs) {
  const node = document.createElement("time");
  node.dateTime = new Date(timeMs).toISOString();
  node.title = full.format(timeMs);
  node.textContent = clock.format(timeMs);

  return node;
}
