// Converts the text of a message to text nodes and links for web addresses. Never parses HTML.

import { element } from "./dom.js";

const ADDRESS = /\bhttps?:\/\/[^\s<>"'`]+/gi;
const TRAILING = /[.,;:!?)\]}»”’]+$/;

export function textNodes(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(ADDRESS)) {
    const address = trimmed(match[0]);
    if (!URL.canParse?.(address)) {
      continue;
    }
    nodes.push(text.slice(end, match.index));
    nodes.push(element("a", { text: address, attributes: { href: address, target: "_blank", rel: "noopener noreferrer nofollow" } }));
    end = match.index + address.length;
  }
  nodes.push(text.slice(end));

  return nodes;
}

/** Removes punctuation after an address, except a closing bracket whose opening one is inside the address. */
function trimmed(address) {
  const tail = address.match(TRAILING)?.[0] ?? "";
  const opensInside = address.includes("(") && tail.startsWith(")");

  return address.slice(0, address.length - tail.length + (opensInside ? 1 : 0));
}
