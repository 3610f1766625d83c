// Helpers for building elements. All text becomes text nodes; no function accepts HTML.

const SVG = "http://www.w3.org/2000/svg";
const TONES = 8;

export const byId = (id) => document.getElementById(id);

/** @param {string | {className?: string, text?: string, attributes?: Object<string, string>}} options a string is the class name */
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

/** Returns a coloured disc with the first character of the name. It is decoration and hidden from screen readers. */
export function avatar(user, target = element("span", { attributes: { "aria-hidden": "true" } })) {
  // Choose the colour by id, so that users who registered in sequence get different colours.
  target.className = `avatar tone-${user.id % TONES}`;
  target.textContent = firstSign(user.name).toLocaleUpperCase();

  return target;
}

/** Returns a name in a <bdi> element, so that a right-to-left name does not reorder the text around it. */
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
