// The positions of the nodes of a decode tree. Down is a new answer, right is more of the same: the
// first passage after a prefix is below it, the next ones are beside that.

/** Height of a level in pixels, and of a level of a tree without branches. */
export const LEVEL = 82;
const CHAIN = 52;
export const TOP = 42;
const LEFT = 30;
/** The radius of a chosen passage, and of a repeated one. */
export const BIG = 15;
export const SMALL = 8;
const NARROW = 26;

/** Lay out the nodes of a reply's tree in `width` pixels or more. */
export function layout(reply, width, withRepeated) {
  const root = { children: [], depth: 0, column: 0 };
  const every = linked(reply, root);
  const nodes = withRepeated ? every : pruned(root, every);
  const wide = columns(root, nodes);
  const available = (width - LEFT - NARROW * wide.filter((big) => !big).length) / Math.max(1, wide.filter(Boolean).length);
  const step = Math.max(58, Math.min(190, available));
  const lefts = [LEFT];
  for (const big of wide) lefts.push(lefts.at(-1) + (big ? step : NARROW));
  const level = wide.length > 1 ? LEVEL : CHAIN;
  for (const node of [root, ...nodes]) {
    node.x = lefts[node.column] + BIG + 4;
    node.y = TOP + level * node.depth;
  }
  const depth = Math.max(0, ...nodes.map((node) => node.depth));
  const size = { width: Math.max(width, lefts.at(-1) + BIG), height: TOP + level * depth + 40, depth, level };
  nodes.forEach((node) => (node.space = spaceRight(node, nodes, size.width)));
  return { root, nodes, ...size };
}

/** Link the nodes to their parents; each gets its rank and the answers that it adds. */
function linked(reply, root) {
  const { nodes: made, titles, beta } = reply.tree;
  const ranks = new Map(reply.passages.map((passage, at) => [passage.id, at + 1]));
  const added = new Map(reply.passages.map((passage) => [passage.id, passage.adds]));
  const numbers = new Map(reply.answers.map((answer, at) => [answer.text, at]));
  const holding = (id) => reply.answers.flatMap((answer, at) => (answer.passages.includes(id) ? [at] : []));
  const known = new Map([[key([]), root]]);
  return made.map((given, at) => {
    const prefix = [...given.prefix];
    while (!known.has(key(prefix))) prefix.pop();
    const parent = known.get(key(prefix));
    const adds = given.is_new ? (added.get(given.passage) ?? []) : [];
    const answers = adds.flatMap((text) => (numbers.has(text) ? [numbers.get(text)] : []));
    const again = given.is_new ? holding(given.passage).filter((answer) => !answers.includes(answer)) : [];
    const node = {
      ...given,
      at,
      parent,
      children: [],
      title: titles[given.passage] || given.passage,
      rank: ranks.get(given.passage),
      answers,
      again,
      likely: given.is_new && !answers.length && !again.length ? given.adds[0]?.answer : undefined,
      probability: probability(given.log_prob),
      after: given.prefix.map((id) => titles[id] || id),
      over: given.instead_of.map((other) => ({
        ...other,
        title: titles[other.passage] || other.passage,
        after: other.prefix.map((id) => titles[id] || id),
        probability: probability(unpenalised(other, beta)),
      })),
    };
    parent.children.push(node);
    known.set(key([...given.prefix, given.passage]), node);
    return node;
  });
}

/** Remove the branches in which nothing new was found. */
function pruned(root, nodes) {
  const leads = (node) => node.is_new || node.children.some(leads);
  const left = nodes.filter(leads);
  for (const node of [root, ...left]) node.children = node.children.filter(leads);
  return left;
}

function key(prefix) {
  return JSON.stringify(prefix);
}

function probability(logarithm) {
  return logarithm === null ? 0 : Math.exp(logarithm);
}

/** The log-probability of an alternative, of which the reply has only the score. */
function unpenalised({ score, prefix }, beta) {
  if (score === null || beta === null) return score;
  return score / ((6 + prefix.length) / 6) ** beta;
}

/** Give each node its column; return for each column whether it has a chosen passage. */
function columns(root, nodes) {
  let next = 0;
  const walk = (node) => {
    node.children.forEach((child, at) => {
      if (at) next += 1;
      child.column = next;
      walk(child);
    });
  };
  walk(root);
  const wide = Array(next + 1).fill(false);
  wide[0] = true;
  for (const node of nodes) if (node.is_new) wide[node.column] = true;
  return wide;
}

/** The pixels to the right of a node until the next one on its level. */
function spaceRight(node, nodes, width) {
  const others = nodes.filter((other) => other.depth === node.depth && other.x > node.x);
  const end = Math.min(width, ...others.map((other) => other.x - radius(other) - 6));
  return end - node.x - BIG - 6;
}

/** The radius of a node. */
export function radius(node) {
  return node.is_new ? BIG : SMALL;
}
