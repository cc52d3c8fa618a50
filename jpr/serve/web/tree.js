// The decode tree as a picture, for the pointer and the arrow keys.

import { draw } from "./dom.js";
import { BIG, LEVEL, SMALL, TOP, layout, radius } from "./layout.js";
import { colour, letter, percent } from "./reply.js";

/**
 * Draw a tree. `show(node)` is called when a node is hovered or focused, `open(node)` when it is
 * clicked or entered.
 */
export function picture(reply, width, withRepeated, { show, open }) {
  const plan = layout(reply, width, withRepeated);
  const svg = draw("svg", {
    width: plan.width, height: plan.height, viewBox: `0 0 ${plan.width} ${plan.height}`,
    role: "tree", "aria-label": summary(plan), class: "drawing",
  });
  const { title, question } = fonts();
  svg.append(...bands(plan), header(plan.root, width, reply.question, question));
  svg.append(draw("g", { "aria-hidden": "true" }, ...plan.nodes.map(edge)));
  const drawn = new Map(plan.nodes.map((node) => [node, item(node, title)]));
  svg.append(...drawn.values());
  drawn.values().next().value?.setAttribute("tabindex", "0");
  listen(svg, drawn, { show, open });
  return { svg, nodes: plan.nodes, drawn };
}

function summary({ nodes, depth }) {
  return `Decode tree: ${nodes.length} expansions, ${depth} deep. Use the arrow keys to move, Enter to open the passage.`;
}

function bands({ width, depth, level }) {
  return Array.from({ length: depth }, (_, at) => {
    const y = TOP + level * (at + 1);
    return draw("g", { "aria-hidden": "true", class: "level" },
      draw("line", { x1: 24, x2: width, y1: y, y2: y }),
      draw("text", { x: 8, y: y + 4 }, String(at + 1)));
  });
}

/** The question at the top, and what the two directions mean. */
function header(root, width, question, font) {
  const space = width - root.x - BIG - 8;
  return draw("g", { "aria-hidden": "true", class: "asked" },
    draw("rect", { x: root.x - 6, y: root.y - 6, width: 12, height: 12, transform: `rotate(45 ${root.x} ${root.y})` }),
    draw("text", { class: "question", x: root.x + BIG, y: root.y + 4 }, ...wrapped(question, space, 1, font)),
    draw("text", { class: "axis", x: width - 8, y: 14, "text-anchor": "end" }, "more of the same →"),
    draw("text", { class: "axis", x: 6, y: 14 }, "↓ new answer"));
}

function edge(node) {
  const { parent, x, y } = node;
  const end = y - radius(node) - 3;
  const middle = parent.y + LEVEL / 2 - 2;
  const bend = Math.min(10, Math.abs(x - parent.x));
  const start = parent.y + (parent.depth ? radius(parent) + 3 : 11);
  const path = x === parent.x
    ? `M${x} ${start}V${end}`
    : `M${parent.x} ${start}V${middle - bend}q0 ${bend} ${bend} ${bend}H${x - bend}q${bend} 0 ${bend} ${bend}V${end}`;
  const line = draw("path", { d: path, class: node.is_new ? "edge" : "edge repeated", fill: "none" });
  line.style.strokeWidth = `${1.2 + 4 * node.probability}px`;
  line.style.setProperty("--turn", node.at);
  return line;
}

function item(node, font) {
  const at = draw("g", { transform: `translate(${node.x} ${node.y})` });
  const group = draw("g", {
    class: `item ${node.is_new ? "new" : "repeated"}`, role: "treeitem", tabindex: "-1",
    "aria-level": node.depth, "aria-label": spoken(node),
    "aria-setsize": node.parent.children.length, "aria-posinset": node.parent.children.indexOf(node) + 1,
    "aria-expanded": node.children.length ? "true" : null,
  }, at);
  group.style.setProperty("--turn", node.at);
  at.append(draw("circle", { class: "halo", r: radius(node) + 7 }), ...(node.is_new ? disc(node) : dot(node)));
  if (node.is_new) at.append(...label(node, font));
  return group;
}

/** A chosen passage: its answers' colours, its number, and its probability as a ring. */
function disc(node) {
  const inner = BIG - 4;
  const slices = node.answers.map((answer, at) =>
    draw("path", { d: slice(inner, at / node.answers.length, (at + 1) / node.answers.length), class: `slice ${colour(answer)}` }));
  const first = node.answers.length ? colour(node.answers[0]) : "none";
  return [
    draw("circle", { class: "ring", r: BIG }),
    draw("path", { class: `arc ${first}`, d: arc(BIG, Math.min(node.probability, 0.9999)), fill: "none" }),
    draw("circle", { class: "disc", r: inner }),
    ...slices,
    draw("text", { class: node.answers.length ? "number on" : "number", y: 4 }, String(node.rank ?? "")),
  ];
}

function dot(node) {
  return [draw("circle", { class: "dot", r: SMALL }), draw("text", { class: "number tiny", y: 3 }, String(node.rank ?? ""))];
}

function label(node, font) {
  if (node.space < 44) return [];
  const lines = wrapped(node.title, node.space, 2, font);
  const below = answersOf(node, font);
  const top = (below.length ? -4 : 4) - 6 * (lines.length - 1);
  const texts = lines.map((line, at) => draw("text", { class: "title", x: BIG + 6, y: top + 13 * at }, line));
  if (below.length) texts.push(draw("text", { class: "adding", x: BIG + 6, y: top + 13 * lines.length }, ...below));
  return texts.map((text) => (text.setAttribute("aria-hidden", "true"), text));
}

/** Below a title: the answers that the passage adds or repeats, or the one that it was chosen for. */
function answersOf(node, font) {
  const likely = `for ${node.likely}`;
  if (node.likely && !node.title.includes(node.likely) && widthOf(likely, font) <= node.space) return [likely];
  const letters = (answers, before, kind) =>
    answers.map((answer) => draw("tspan", { class: `${kind} ${colour(answer)}` }, `${before}${letter(answer)} `));
  return [...letters(node.answers, "+", "adds"), ...letters(node.again, "again ", "again")];
}

/** Break a text at its spaces into lines of a width in pixels; truncate what does not fit. */
function wrapped(text, pixels, most, font) {
  const lines = [];
  const words = text.trim().split(/\s+/);
  while (words.length && lines.length < most) {
    let line = words.shift();
    while (words.length && widthOf(`${line} ${words[0]}`, font) <= pixels) line += ` ${words.shift()}`;
    if (words.length && lines.length === most - 1) line += "…";
    lines.push(line);
  }
  return lines.map((line) => cut(line, pixels, font));
}

function cut(line, pixels, font) {
  if (widthOf(line, font) <= pixels) return line;
  const letters = Array.from(line.replace(/…$/, ""));
  while (letters.length > 1 && widthOf(`${letters.join("")}…`, font) > pixels) letters.pop();
  return `${letters.join("").trimEnd()}…`;
}

const canvas = document.createElement("canvas").getContext("2d");

function widthOf(text, font) {
  canvas.font = font;
  return canvas.measureText(text).width;
}

/** The fonts of titles and of the question, as the style sheet has them. */
function fonts() {
  const styles = getComputedStyle(document.documentElement);
  return {
    title: `12px ${styles.getPropertyValue("--sans")}`,
    question: `italic 13px ${styles.getPropertyValue("--serif")}`,
  };
}

function point(r, turn) {
  const angle = 2 * Math.PI * turn - Math.PI / 2;
  return `${(r * Math.cos(angle)).toFixed(2)} ${(r * Math.sin(angle)).toFixed(2)}`;
}

function arc(r, share) {
  return `M${point(r, 0)}A${r} ${r} 0 ${share > 0.5 ? 1 : 0} 1 ${point(r, share)}`;
}

function slice(r, from, to) {
  if (to - from === 1) return `M0 ${-r}A${r} ${r} 0 1 1 0 ${r}A${r} ${r} 0 1 1 0 ${-r}Z`;
  return `M0 0L${point(r, from)}A${r} ${r} 0 ${to - from > 0.5 ? 1 : 0} 1 ${point(r, to)}Z`;
}

/** A node in words: what a screen reader says. */
function spoken(node) {
  const which = node.is_new ? `Passage ${node.rank}` : `Passage ${node.rank}, repeated`;
  const adds = node.is_new
    ? node.adds.map((added) => `${added.answer} ${percent(added.overall)}`).join(", ")
    : "";
  return [
    `${which}: ${node.title}`,
    `depth ${node.depth}${node.after.length ? `, after ${node.after.at(-1)}` : ""}`,
    `probability ${percent(node.probability)}`,
    adds && `may add ${adds}`,
    node.over.length && `preferred to ${node.over.map((other) => `${other.title} ${percent(other.probability)}`).join(", ")}`,
  ].filter(Boolean).join("; ");
}

function listen(svg, drawn, { show, open }) {
  const nodes = new Map([...drawn].map(([node, group]) => [group, node]));
  const of = (event) => nodes.get(event.target.closest?.(".item"));
  svg.addEventListener("pointerover", (event) => of(event) && show(of(event)));
  svg.addEventListener("focusin", (event) => {
    const node = of(event);
    if (!node) return;
    for (const group of nodes.keys()) group.setAttribute("tabindex", group === drawn.get(node) ? "0" : "-1");
    show(node);
  });
  svg.addEventListener("click", (event) => of(event) && open(of(event)));
  svg.addEventListener("keydown", (event) => {
    const node = of(event);
    if (!node) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(node);
      return;
    }
    const next = neighbour(node, event.key, [...drawn.keys()]);
    if (!next) return;
    event.preventDefault();
    drawn.get(next).focus();
  });
}

function neighbour(node, pressed, nodes) {
  const beside = node.parent.children;
  const at = beside.indexOf(node);
  switch (pressed) {
    case "ArrowDown": return node.children[0];
    case "ArrowUp": return node.parent.depth ? node.parent : undefined;
    case "ArrowRight": return beside[at + 1];
    case "ArrowLeft": return beside[at - 1];
    case "Home": return nodes[0];
    case "End": return nodes.at(-1);
    default: return undefined;
  }
}
