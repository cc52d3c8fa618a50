// Makes elements from names, attributes and children. Text becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element; a key with a dash or of `role`, `for`, `href`… is an attribute. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Make an SVG element. */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Return an element of the page by its id. */
export function byId(id) {
  return document.getElementById(id);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
