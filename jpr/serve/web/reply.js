// The contents of a reply, prepared for the page; knows nothing of the page itself.

const COLOURS = 8;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** The letter of an answer by its index. */
export function letter(answer) {
  const round = Math.floor(answer / LETTERS.length);
  return LETTERS[answer % LETTERS.length] + (round ? String(round + 1) : "");
}

/** The class that gives an answer its colour. */
export function colour(answer) {
  return `c${answer % COLOURS}`;
}

/** A probability as text. */
export function percent(probability) {
  if (probability === null || probability === undefined) return "–";
  const whole = 100 * probability;
  return whole > 0 && whole < 1 ? "< 1 %" : `${Math.round(whole)} %`;
}

/**
 * The joint ranking: passages with the answers that each has first (`fresh`) or repeats (`again`),
 * and the answer that it was most likely chosen for, if the reply does not have it (`likely`).
 */
export function joint(reply) {
  const held = (passage) =>
    reply.answers.flatMap((answer, at) => (answer.passages.includes(passage.id) ? [at] : []));
  const known = new Set(reply.answers.map((answer) => folded(answer.text)));
  const likely = new Map(reply.tree.nodes.flatMap(({ is_new, passage, adds }) =>
    is_new && adds.length && !known.has(folded(adds[0].answer)) ? [[passage, adds[0]]] : []));
  return ranked(reply.passages.map((passage) => ({ ...passage, held: held(passage), likely: likely.get(passage.id) })));
}

/**
 * The independent ranking in the same form. Its answers get the numbers of the joint reply; those
 * that the joint reply lacks come after them and are named in `others`.
 */
export function independent(reply) {
  if (!reply.independent) return null;
  const numbers = new Map(reply.answers.map((answer, at) => [folded(answer.text), at]));
  const others = [];
  const number = (text) => {
    if (!numbers.has(folded(text))) {
      numbers.set(folded(text), reply.answers.length + others.length);
      others.push(text);
    }
    return numbers.get(folded(text));
  };
  const own = reply.independent.answers.map((answer) => number(answer.text));
  const rows = reply.independent.passages.map((passage) => {
    const spans = passage.spans.map((span) => ({ ...span, answer: own[span.answer] }));
    const held = own.filter((_, at) => reply.independent.answers[at].passages.includes(passage.id));
    return { ...passage, spans, held: held.sort((a, b) => a - b) };
  });
  return { ...ranked(rows), others };
}

function ranked(passages) {
  const seen = new Set();
  const rows = passages.map((passage, at) => {
    const fresh = passage.held.filter((answer) => !seen.has(answer));
    const again = passage.held.filter((answer) => seen.has(answer));
    fresh.forEach((answer) => seen.add(answer));
    return { ...passage, rank: at + 1, fresh, again };
  });
  const repeating = rows.filter((row) => row.again.length && !row.fresh.length).length;
  return { rows, found: seen.size, repeating };
}

function folded(text) {
  return text.normalize("NFC").toLowerCase();
}

/**
 * Split a text into pieces, each with its answers. Offsets count code points, as in Python;
 * JavaScript strings count UTF-16 units.
 */
export function pieces(text, spans) {
  const characters = Array.from(text);
  const cuts = new Set([0, characters.length]);
  for (const { start, end } of spans) cuts.add(start).add(end);
  const places = [...cuts].filter((at) => at <= characters.length).sort((a, b) => a - b);
  return places.slice(1).map((end, at) => {
    const start = places[at];
    const here = spans.filter((span) => span.start <= start && end <= span.end);
    return {
      text: characters.slice(start, end).join(""),
      answers: [...new Set(here.map((span) => span.answer))],
    };
  });
}

/** The part of a passage around its first answers, with spans that fit. */
export function excerpt(text, spans, size) {
  const characters = Array.from(text);
  if (characters.length <= size) return { text, spans };
  const first = Math.min(characters.length, ...spans.map((span) => span.start));
  const preferred = spans.length ? Math.max(0, first - Math.floor(size / 3)) : 0;
  let start = Math.min(preferred, characters.length - size);
  while (start > 0 && characters[start - 1] !== " " && start < first) start += 1;
  let end = Math.min(characters.length, start + size);
  while (end < characters.length && characters[end] !== " ") end += 1;
  const before = start > 0 ? "… " : "";
  const shift = before.length - start;
  const inside = spans.filter((span) => span.start >= start && span.end <= end);
  return {
    text: before + characters.slice(start, end).join("") + (end < characters.length ? " …" : ""),
    spans: inside.map((span) => ({ ...span, start: span.start + shift, end: span.end + shift })),
  };
}

/** The passages as a prompt for a language model. */
export function context(reply) {
  const passages = reply.passages.map(
    ({ id, title, text }, at) => `[${at + 1}] ${title || "Untitled"} (id: ${id})\n${text}`,
  );
  return [
    "Answer the question from the numbered passages below. It may have several distinct answers:\n" +
      "give every one of them, each once, with the numbers of the passages that say it, as in [2].",
    `Question: ${reply.question}`,
    ...passages,
  ].join("\n\n") + "\n";
}
