// A reply as elements of the page: answers, passages, two rankings side by side, facts of a node.

import { make } from "./dom.js";
import { colour, excerpt, letter, percent, pieces } from "./reply.js";

const EXCERPT = 130;

/** The answers, each with its probability and links to its passages. */
export function answerList(reply) {
  const ranks = new Map(reply.passages.map((passage, at) => [passage.id, at + 1]));
  return reply.answers.map((answer, at) =>
    make("li", { class: `answer ${colour(at)}`, "data-answer": at },
      badge(at),
      make("span", { class: "text" }, answer.text),
      answer.score === null ? null : meter(answer.score),
      make("span", { class: "where" }, ...links(answer.passages, ranks))));
}

function meter(probability) {
  const fill = make("span", { class: "fill" });
  fill.style.inlineSize = `${100 * probability}%`;
  return make("span", { class: "meter", title: "probability" },
    make("span", { class: "gauge", "aria-hidden": "true" }, fill),
    make("span", { class: "share" }, percent(probability)));
}

function links(ids, ranks) {
  const found = ids.filter((id) => ranks.has(id)).map((id) => ranks.get(id)).sort((a, b) => a - b);
  return found.map((rank) =>
    make("a", { href: `#passage-${rank}`, "data-rank": rank, "aria-label": `Passage ${rank}` }, String(rank)));
}

function badge(answer, again = false) {
  return make("span", { class: `badge ${colour(answer)}${again ? " again" : ""}`, "aria-hidden": "true" }, letter(answer));
}

/** The passages of the joint choice, in full. */
export function passageList(ranking, names) {
  return make("ol", { class: "full" }, ...ranking.rows.map((row) =>
    make("li", { class: "passage", id: `passage-${row.rank}`, tabindex: "-1", "data-rank": row.rank },
      number(row),
      make("div", { class: "body" },
        make("h3", {}, ...heading(row, names)),
        make("p", { class: "facts" }, ...coverage(row, names), ...facts(row)),
        make("p", { class: "text" }, ...marked(row.text, everySpan(row)))))));
}

function number(row) {
  return make("button", { class: "number", type: "button", "data-tree": row.id, "aria-label": `Passage ${row.rank} in the tree` }, String(row.rank));
}

function facts(row) {
  const meta = row.meta ?? {};
  const source = [meta.file ?? meta.source, meta.page !== undefined ? `page ${meta.page}` : null];
  return [`depth ${row.depth}`, ...source, row.id]
    .filter((one) => one !== null && one !== undefined)
    .map((one) => make("span", { class: "fact" }, String(one)));
}

/** What a passage adds and repeats, or the answer that it was chosen for. */
function coverage(row, names) {
  const listed = (answers, verb, again) => answers.length
    ? make("span", { class: again ? "covers again" : "covers" }, verb,
        ...answers.map((answer) => make("span", { class: "covered" }, badge(answer, again), spokenName(answer, names))))
    : null;
  const all = [listed(row.fresh, "adds", false), listed(row.again, "repeats", true), likely(row)].filter(Boolean);
  return all.length ? all : [make("span", {}, "no answer")];
}

function likely(row) {
  if (row.fresh.length || !row.likely) return null;
  return make("span", { class: "fact" }, "chosen for ", make("q", {}, row.likely.answer), ` ${percent(row.likely.overall)}`);
}

/** The spans of a passage's answers, and of what it was chosen for. */
function everySpan(row) {
  if (row.fresh.length || !row.likely) return row.spans;
  return [...row.spans, ...row.likely.spans.map(([start, end]) => ({ answer: null, start, end }))];
}

function spokenName(answer, names) {
  return make("span", { class: "visually-hidden" }, ` ${names[answer]} `);
}

/** A title; an answer that is only in the title is marked there. */
function heading(row, names) {
  const title = row.title || row.id;
  const inText = new Set(row.spans.map((span) => span.answer));
  const spans = [...row.fresh, ...row.again].filter((answer) => !inText.has(answer)).flatMap((answer) => {
    const start = Array.from(title.toLowerCase().split(names[answer].toLowerCase())[0]).length;
    const end = start + Array.from(names[answer]).length;
    return end <= Array.from(title).length ? [{ answer, start, end }] : [];
  });
  return marked(title, spans);
}

function marked(text, spans) {
  return pieces(text, spans).map((piece) => {
    const covered = piece.answers.filter((answer) => answer !== null);
    if (covered.length) {
      const letters = covered.map(letter).join("");
      return make("mark", { class: colour(covered[0]), "data-answers": covered.join(" "), "data-letters": letters }, piece.text);
    }
    return piece.answers.length ? make("span", { class: "likely" }, piece.text) : document.createTextNode(piece.text);
  });
}

/** Both rankings, with the repeated answers marked. */
export function sideBySide(joint, independent, names) {
  return make("div", { class: "both" },
    column("Chosen jointly", joint, names),
    column("Ranked independently", independent, names));
}

function column(title, ranking, names) {
  const many = ranking.repeating ? count(ranking.repeating, "passage") : "no passage";
  const summary = `${count(ranking.found, "answer")}, ${many} only ${repeats(ranking)}`;
  return make("section", { class: "column", "aria-label": title },
    make("h3", {}, title),
    make("p", { class: "fine" }, summary),
    make("ol", {}, ...ranking.rows.map((row) => brief(row, names))));
}

function brief(row, names) {
  const cut = excerpt(row.text, everySpan(row), EXCERPT);
  const isRepeat = row.again.length && !row.fresh.length;
  return make("li", { class: isRepeat ? "brief repeats" : "brief" },
    make("span", { class: "rank", "aria-hidden": "true" }, String(row.rank)),
    make("div", { class: "body" },
      make("h4", {}, ...heading(row, names)),
      make("p", { class: "facts" }, ...coverage(row, names)),
      make("p", { class: "text" }, ...marked(cut.text, cut.spans))));
}

/** A sentence or two on what the joint choice changed. */
export function difference(joint, independent) {
  if (!independent) return "";
  const summary = (ranking) => {
    const rest = ranking.repeating ? `, ${ranking.repeating} of which only ${repeats(ranking)}` : "";
    return `${count(ranking.found, "answer")} in ${count(ranking.rows.length, "passage")}${rest}`;
  };
  return `Chosen jointly: ${summary(joint)}. Ranked independently: ${summary(independent)}.`;
}

function repeats({ repeating }) {
  return repeating < 2 ? "repeats" : "repeat";
}

/** A number and its noun. */
export function count(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

/** The facts of a node: its probability, what it may add, and the alternatives. */
export function nodeFacts(node, penalised) {
  const which = node.is_new ? String(node.rank) : `${node.rank}, repeated`;
  const largest = Math.max(node.probability, ...node.over.map((other) => other.probability), 1e-9);
  const row = (one, chosen) => {
    const fill = make("span", { class: "fill" });
    fill.style.inlineSize = `${(100 * one.probability) / largest}%`;
    return make("tr", { class: chosen ? "chosen-row" : "" },
      make("th", { scope: "row" }, one.title, make("span", { class: "after" }, after(one))),
      make("td", { class: "gauge", "aria-hidden": "true" }, fill),
      make("td", { class: "number" }, percent(one.probability)),
      penalised ? make("td", { class: "number" }, one.score === null ? "–" : one.score.toFixed(2).replace("-", "−")) : null);
  };
  const may = node.is_new ? node.adds : [];
  return [
    make("p", { class: "which" }, make("b", {}, which), ` ${node.title}`),
    may.length ? make("p", { class: "may" }, "may add ", ...may.flatMap((one, at) => [at ? ", " : "", make("b", {}, one.answer), ` ${percent(one.overall)}`])) : null,
    make("table", {},
      make("thead", {}, make("tr", {},
        make("th", { scope: "col" }, node.over.length ? "chosen, and alternatives" : "chosen"), make("td", {}),
        make("th", { scope: "col", class: "number" }, "P"),
        penalised ? make("th", { scope: "col", class: "number", title: "log P times the length penalty of β; the largest is chosen" }, "score") : null)),
      make("tbody", {}, row(node, true), ...node.over.map((other) => row(other, false)))),
  ].filter(Boolean);
}

function after(one) {
  return one.after.length ? ` after ${one.after.at(-1)}` : " at depth 1";
}
