// Small helpers for building elements. Text only ever becomes a text node; there is no way here to pass HTML.

const SVG = "http://www.w3.org/2000/svg";
const TONES = 8;

export const byId = (id) => document.getElementById(id);

/** @param {string | {className?: string, text?: string, attributes?: Object<string, string>}} options a class name or more */
export function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  const { className = "", text = null, attributes = {} } = typeof options === "string" ? { className: options } : options;
  if (className !== "") {
    node.className = className;
  }
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  if (text !== null) {
    node.textContent = text;
  }
  node.append(...children);

  return node;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);

  return svg;
}

/** A coloured disc with the first sign of the name; decoration, so hidden from screen readers. */
export function avatar(user, target = element("span", { attributes: { "aria-hidden": "true" } })) {
  // By id, so that people who came one after the other look different.
  target.className = `avatar tone-${user.id % TONES}`;
  target.textContent = firstSign(user.name).toLocaleUpperCase();

  return target;
}

/** A name in its own direction, so that an Arabic name does not turn the sentence around it. */
export const nameNode = (name, className = "") => element("bdi", { className, text: name });

export function button(text, className, onClick) {
  const node = element("button", { className, text, attributes: { type: "button" } });
  node.addEventListener("click", onClick);

  return node;
}

function firstSign(name) {
  if (Intl.Segmenter === undefined) {
    return [...name][0] ?? "";
  }
  for (const { segment } of new Intl.Segmenter().segment(name)) {
    return segment;
  }

  return "";
}
