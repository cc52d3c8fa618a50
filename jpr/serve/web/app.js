// The page: what is asked, what is shown, and what the reader does with it.

import { Failure, Service } from "./api.js";
import { askToken, copy, watchDrops, watchTheme } from "./around.js";
import { byId, make } from "./dom.js";
import { context, independent, joint } from "./reply.js";
import { picture } from "./tree.js";
import { answerList, count, difference, nodeFacts, passageList, sideBySide } from "./views.js";

const EXAMPLES = [
  "What was Eli Whitney's job?",
  "Who plays Mark on Roseanne?",
  "What city is or was the capital of Georgia?",
  "Who invented the telephone?",
  "Who played Sherlock Holmes?",
  "Who scored a hat trick in a World Cup final?",
];
const OWN = {
  encyclopedia: "the demo encyclopedia",
  documents: "the documents of this service",
  index: "the index of this service",
};
const SOON = 100; // milliseconds in which an answer needs no word of waiting
const MANY = 40; // nodes; in larger trees, orders of the same passages are left out at first

const state = {
  info: null,
  files: null, // {corpus, names, passages} of files that were dropped
  reply: null,
  shown: null, // the tree as it is drawn
  whole: null, // whether it is drawn with passages that come again; null until the reader says
  beta: null, // null for the model's own decoder
  asking: null, // AbortController of the question under way
  turning: false, // whether the slider's request is under way
};

const service = new Service({
  waiting: (left) => left && tellBusy(`The service is busy; trying again in ${left} s`),
  token: askToken,
});

// ---- asking ------------------------------------------------------------------------------------

async function ask(question, beta = null) {
  state.asking?.abort();
  const mine = (state.asking = new AbortController());
  state.beta = beta;
  remember(question, "pushState");
  await during(mine, "Reading the candidates", async () => {
    const reply = await service.ask(wanted(question), mine.signal);
    show(reply);
    byId("answers-title").focus({ preventScroll: true });
    say(spokenReply(reply));
  });
  if (state.beta !== beta) await turn(); // the slider was moved meanwhile
}

function wanted(question) {
  return {
    question,
    k: Number(byId("k").value) || undefined,
    corpus: state.files?.corpus,
    ...(state.beta === null ? {} : { beta: state.beta, decode: "tree" }),
  };
}

/** Ask again with another β or k; where one is under way, once more after it, for the last wish. */
async function turn() {
  if (!state.reply || state.turning || byId("reply").hasAttribute("aria-busy")) return;
  const mine = (state.asking = new AbortController());
  const { question } = state.reply;
  const wish = () => JSON.stringify(wanted(question));
  state.turning = true;
  try {
    let asked;
    do {
      asked = wish();
      show(await service.ask(JSON.parse(asked), mine.signal), { again: true });
    } while (!mine.signal.aborted && asked !== wish());
    say(spokenTree(state.reply));
    remember(question, "replaceState");
  } catch (error) {
    fail(error);
  } finally {
    state.turning = false;
  }
}

async function during(mine, doing, work) {
  byId("error").hidden = true;
  byId("reply").setAttribute("aria-busy", "true");
  const timer = setTimeout(() => tellBusy(doing), SOON);
  try {
    await work();
  } catch (error) {
    fail(error);
  } finally {
    clearTimeout(timer);
    if (state.asking === mine) {
      byId("busy").hidden = true;
      byId("reply").removeAttribute("aria-busy");
    }
  }
}

function tellBusy(doing) {
  byId("doing").textContent = `${doing} …`;
  byId("busy").hidden = false;
}

function fail(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Failure)) console.error(error);
  if (error.status === 404 && state.files) leaveFiles();
  byId("error").textContent = error instanceof Failure ? error.message : `The page failed: ${error.message}`;
  byId("error").hidden = false;
}

function say(text) {
  byId("live").textContent = text;
}

function spokenReply({ answers, passages }) {
  if (!passages.length) return "No passage was found.";
  const named = answers.map((answer) => answer.text).join(", ");
  return `${count(answers.length, "answer")} in ${count(passages.length, "passage")}${named && `: ${named}`}.`;
}

function spokenTree({ tree }) {
  const depth = Math.max(0, ...tree.nodes.map((node) => node.depth));
  return `β ${decoderName(tree)}: ${count(tree.nodes.length, "expansion")}, ${depth} deep.`;
}

// ---- showing -----------------------------------------------------------------------------------

function show(reply, { again = false } = {}) {
  state.reply = reply;
  byId("error").hidden = true;
  byId("examples").hidden = true;
  byId("reply").hidden = false;
  byId("k").placeholder = reply.passages.length;
  document.body.classList.add("replied");
  const { answers, passages } = reply;
  byId("answers-title").textContent = answers.length ? count(answers.length, "answer") : "No answer";
  byId("answers").replaceChildren(...(answers.length ? answerList(reply) : [nothing(passages)]));
  showPassages();
  showTree(again);
}

function nothing(passages) {
  const told = passages.length
    ? "The passages below are the nearest, but nothing in them reads like an answer."
    : "Nothing was found for this question. Other words may help.";
  return make("li", { class: "nothing" }, told);
}

function showPassages() {
  const chosen = joint(state.reply);
  const single = independent(state.reply);
  const names = [...state.reply.answers.map((answer) => answer.text), ...(single?.others ?? [])];
  const both = document.querySelector("input[name=view]:checked").value === "both" && single;
  byId("difference").textContent = difference(chosen, single);
  byId("passages").replaceChildren(both ? sideBySide(chosen, single, names) : passageList(chosen, names));
}

function showTree(again = false) {
  const { tree } = state.reply;
  const place = byId("tree");
  const focused = place.contains(document.activeElement);
  const width = Math.max(260, place.clientWidth - 2);
  byId("whole").checked = state.whole ?? tree.nodes.length <= MANY;
  const shown = picture(state.reply, width, byId("whole").checked, { show: showNode, open: openNode });
  shown.svg.classList.toggle("still", again);
  place.replaceChildren(shown.svg);
  state.shown = shown;
  const repeated = tree.nodes.filter((node) => !node.is_new).length;
  byId("grown").textContent = tree.nodes.length
    ? `${count(tree.nodes.length, "expansion")}${repeated ? `, ${repeated} of a passage again` : ""}`
    : "";
  byId("whole").closest("label").hidden = !repeated;
  byId("beta-value").textContent = decoderName(tree);
  byId("own").hidden = state.beta === null;
  byId("beta").closest(".dial").classList.toggle("own", state.beta === null);
  byId("node").replaceChildren(make("p", { class: "hint" }, tree.nodes.length
    ? "Point at a passage, or go there with Tab and the arrow keys, to see its probability and the passages passed over."
    : "There is no tree: nothing was chosen."));
  if (focused) shown.svg.querySelector(".item")?.focus();
}

function decoderName({ decoder, beta }) {
  if (state.beta !== null) return `= ${state.beta.toFixed(1)}`;
  return `is for a tree; this is the model’s own decoder, ${decoder}${beta === null ? "" : ` with β = ${beta}`}`;
}

function showNode(node) {
  const { drawn } = state.shown;
  const over = new Set(node.over.map((other) => JSON.stringify([other.prefix, other.passage])));
  for (const [other, group] of drawn) {
    group.classList.toggle("active", other === node);
    group.classList.toggle("over", over.has(JSON.stringify([other.prefix, other.passage])));
  }
  light(".passage", (row) => Number(row.dataset.rank) === node.rank);
  byId("node").replaceChildren(...nodeFacts(node, state.reply.tree.beta !== null));
}

function openNode(node) {
  const joint = document.querySelector("input[name=view][value=joint]");
  if (!joint.checked) {
    joint.checked = true;
    showPassages();
  }
  byId(`passage-${node.rank}`)?.focus();
}

function light(selector, wanted) {
  for (const element of document.querySelectorAll(selector)) element.classList.toggle("lit", wanted(element));
}

/** Let an answer's places stand out while it is pointed at. */
function showAnswer(answer) {
  light("mark", (mark) => answer !== undefined && mark.dataset.answers.split(" ").includes(answer));
}

// ---- files -------------------------------------------------------------------------------------

async function useFiles(files) {
  if (!files.length) return;
  state.asking?.abort();
  const mine = (state.asking = new AbortController());
  await during(mine, `Reading ${count(files.length, "file")}`, async () => {
    const made = await service.corpus(files, mine.signal);
    state.files = { ...made, names: files.map((file) => file.name) };
    clear();
    tellCorpus();
    say(`Ready: ${byId("corpus").textContent}`);
    byId("question").focus();
  });
}

function leaveFiles() {
  state.files = null;
  clear();
  tellCorpus();
}

/** Forget the reply: it is of another corpus. */
function clear() {
  state.reply = null;
  byId("reply").hidden = true;
  document.body.classList.remove("replied");
}

function tellCorpus() {
  const { info, files } = state;
  const name = files ? `${fileNames(files.names)}, ${count(files.passages, "passage")}` : OWN[info?.corpus];
  byId("corpus").textContent = name ? `Asking ${name}` : "";
  byId("leave").hidden = !files;
  byId("examples").hidden = Boolean(files) || Boolean(state.reply) || info?.corpus !== "encyclopedia";
}

function fileNames(names) {
  return names.length > 2 ? `${names[0]} and ${count(names.length - 1, "more file")}` : names.join(" and ");
}

// ---- the address ---------------------------------------------------------------------------------

/** Note the question in the address, behind #: so it is not sent, and not logged, anywhere. */
function remember(question, how) {
  const noted = new URLSearchParams({ q: question });
  if (state.beta !== null) noted.set("beta", state.beta);
  document.title = `${question} · jpr`;
  if (location.hash !== `#${noted}`) history[how](null, "", `#${noted}`);
}

async function recall(hash) {
  const noted = new URLSearchParams(hash.slice(1));
  const question = noted.get("q")?.trim();
  if (!question) return;
  byId("question").value = question;
  if (noted.has("beta")) byId("beta").value = noted.get("beta");
  await ask(question, noted.has("beta") ? Number(byId("beta").value) : null);
}

// ---- the start ---------------------------------------------------------------------------------

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = byId("question").value.trim();
    if (question) ask(question);
  });
  byId("k").addEventListener("change", () => byId("k").reportValidity() && turn());
  byId("beta").addEventListener("input", () => {
    state.beta = Number(byId("beta").value);
    turn();
  });
  byId("whole").addEventListener("change", () => {
    state.whole = byId("whole").checked;
    showTree(true);
  });
  byId("own").addEventListener("click", () => {
    state.beta = null;
    byId("beta").focus();
    turn();
  });
  byId("files").addEventListener("change", () => {
    useFiles([...byId("files").files]);
    byId("files").value = "";
  });
  byId("leave").addEventListener("click", () => (leaveFiles(), byId("question").focus()));
  byId("copy-json").addEventListener("click", (event) => copy(`${JSON.stringify(state.reply, null, 2)}\n`, event.currentTarget, say));
  byId("copy-context").addEventListener("click", (event) => copy(context(state.reply), event.currentTarget, say));
  byId("token-not").addEventListener("click", () => byId("token").close());
  document.querySelectorAll("input[name=view]").forEach((input) => input.addEventListener("change", showPassages));
  listenReply();
  watchTheme();
  addEventListener("hashchange", ({ newURL }) => recall(new URL(newURL).hash)); // a later address may have come meanwhile
  watchDrops(useFiles);
}

function listenReply() {
  const answerOf = (event) => event.target.closest?.("[data-answer]")?.dataset.answer;
  for (const name of ["pointerover", "focusin"]) byId("answers").addEventListener(name, (event) => showAnswer(answerOf(event)));
  for (const name of ["pointerleave", "focusout"]) byId("answers").addEventListener(name, () => showAnswer(undefined));
  byId("answers").addEventListener("click", (event) => {
    const rank = event.target.closest?.("a[data-rank]")?.dataset.rank;
    if (!rank) return;
    event.preventDefault();
    openNode({ rank });
  });
  byId("passages").addEventListener("click", (event) => {
    const id = event.target.closest?.("[data-tree]")?.dataset.tree;
    const node = state.shown?.nodes.find((one) => one.is_new && one.passage === id);
    if (node) state.shown.drawn.get(node).focus();
  });
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (state.reply && now && now !== width) showTree(true);
    width = now;
  }).observe(byId("tree"));
}

function showExamples() {
  byId("examples").querySelector("ul").replaceChildren(...EXAMPLES.map((question) =>
    make("li", {}, make("button", { type: "button", onclick: () => {
      byId("question").value = question;
      ask(question);
    } }, question))));
}

async function start() {
  listen();
  showExamples();
  try {
    state.info = await service.info();
    if (state.info.k) byId("k").value = state.info.k;
  } catch {
    // Without it the page only says less.
  }
  tellCorpus();
  if (!state.asking) await recall(location.hash); // a question may have been asked meanwhile
}

start();
