// The page: asking, showing replies, and the controls.

import { Failure, Service } from "./api.js";
import { askToken, copy, watchDrops, watchTheme } from "./controls.js";
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
const CORPORA = {
  encyclopedia: "the demo encyclopedia",
  documents: "the documents of this service",
  index: "the index of this service",
};
const BUSY_AFTER = 100; // milliseconds until the page says that it waits
const LARGE = 40; // nodes; larger trees hide repeated passages at first

const state = {
  info: null,
  files: null, // {corpus, names, passages} of uploaded files
  reply: null,
  picture: null, // the tree on the page
  repeated: null, // whether the tree shows repeated passages; null until the user chooses
  beta: null, // null for the model's default decoder
  asking: null, // AbortController of the running request
  updating: false, // whether a request of the slider or of k is running
};

const service = new Service({
  waiting: (left) => left && showBusy(`The service is busy; retrying in ${left} s`),
  token: askToken,
});

// ---- asking ------------------------------------------------------------------------------------

async function ask(question, beta = null) {
  state.asking?.abort();
  const mine = (state.asking = new AbortController());
  state.beta = beta;
  saveToAddress(question, "pushState");
  await during(mine, "Reading the candidates", async () => {
    const reply = await service.ask(requestFor(question), mine.signal);
    show(reply);
    byId("answers-title").focus({ preventScroll: true });
    say(spokenReply(reply));
  });
  if (state.beta !== beta) await update(); // the slider was moved meanwhile
}

function requestFor(question) {
  return {
    question,
    k: Number(byId("k").value) || undefined,
    corpus: state.files?.corpus,
    ...(state.beta === null ? {} : { beta: state.beta, decode: "tree" }),
  };
}

/** Ask again with another β or k; while a request runs, only the latest values are asked next. */
async function update() {
  if (!state.reply || state.updating || byId("reply").hasAttribute("aria-busy")) return;
  const mine = (state.asking = new AbortController());
  const { question } = state.reply;
  const current = () => JSON.stringify(requestFor(question));
  state.updating = true;
  try {
    let asked;
    do {
      asked = current();
      show(await service.ask(JSON.parse(asked), mine.signal), { again: true });
    } while (!mine.signal.aborted && asked !== current());
    say(spokenTree(state.reply));
    saveToAddress(question, "replaceState");
  } catch (error) {
    fail(error);
  } finally {
    state.updating = false;
  }
}

async function during(mine, doing, work) {
  byId("error").hidden = true;
  byId("reply").setAttribute("aria-busy", "true");
  const timer = setTimeout(() => showBusy(doing), BUSY_AFTER);
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

function showBusy(doing) {
  byId("doing").textContent = `${doing} …`;
  byId("busy").hidden = false;
}

function fail(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Failure)) console.error(error);
  if (error.status === 404 && state.files) removeFiles();
  byId("error").textContent = error instanceof Failure ? error.message : `Page error: ${error.message}`;
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
  const text = passages.length
    ? "The passages below are the closest matches, but none contains a likely answer."
    : "No passage was found for this question. Try other words.";
  return make("li", { class: "nothing" }, text);
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
  byId("repeated").checked = state.repeated ?? tree.nodes.length <= LARGE;
  const shown = picture(state.reply, width, byId("repeated").checked, { show: showNode, open: openNode });
  shown.svg.classList.toggle("still", again);
  place.replaceChildren(shown.svg);
  state.picture = shown;
  const repeated = tree.nodes.filter((node) => !node.is_new).length;
  byId("tree-size").textContent = tree.nodes.length
    ? `${count(tree.nodes.length, "expansion")}${repeated ? `, ${repeated} repeated` : ""}`
    : "";
  byId("repeated").closest("label").hidden = !repeated;
  byId("beta-value").textContent = decoderName(tree);
  byId("reset").hidden = state.beta === null;
  byId("beta").closest(".dial").classList.toggle("own", state.beta === null);
  byId("node").replaceChildren(make("p", { class: "hint" }, tree.nodes.length
    ? "Hover over a passage, or use Tab and the arrow keys, to see its probability and the alternatives."
    : "No tree: no passage was chosen."));
  if (focused) shown.svg.querySelector(".item")?.focus();
}

function decoderName({ decoder, beta }) {
  if (state.beta !== null) return `= ${state.beta.toFixed(1)}`;
  return `= model default (decoder ${decoder}${beta === null ? "" : `, β = ${beta}`})`;
}

function showNode(node) {
  const { drawn } = state.picture;
  const over = new Set(node.over.map((other) => JSON.stringify([other.prefix, other.passage])));
  for (const [other, group] of drawn) {
    group.classList.toggle("active", other === node);
    group.classList.toggle("over", over.has(JSON.stringify([other.prefix, other.passage])));
  }
  highlight(".passage", (row) => Number(row.dataset.rank) === node.rank);
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

function highlight(selector, matches) {
  for (const element of document.querySelectorAll(selector)) element.classList.toggle("lit", matches(element));
}

/** Highlight where an answer is, while the pointer is on it. */
function showAnswer(answer) {
  highlight("mark", (mark) => answer !== undefined && mark.dataset.answers.split(" ").includes(answer));
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
    showCorpus();
    say(`Ready: ${byId("corpus").textContent}`);
    byId("question").focus();
  });
}

function removeFiles() {
  state.files = null;
  clear();
  showCorpus();
}

/** Remove the reply, which is of another corpus. */
function clear() {
  state.reply = null;
  byId("reply").hidden = true;
  document.body.classList.remove("replied");
}

function showCorpus() {
  const { info, files } = state;
  const name = files ? `${fileNames(files.names)}, ${count(files.passages, "passage")}` : CORPORA[info?.corpus];
  byId("corpus").textContent = name ? `Asking ${name}` : "";
  byId("remove").hidden = !files;
  byId("examples").hidden = Boolean(files) || Boolean(state.reply) || info?.corpus !== "encyclopedia";
}

function fileNames(names) {
  return names.length > 2 ? `${names[0]} and ${count(names.length - 1, "more file")}` : names.join(" and ");
}

// ---- the address ---------------------------------------------------------------------------------

/** Put the question into the address after #, which is neither sent nor logged. */
function saveToAddress(question, how) {
  const parameters = new URLSearchParams({ q: question });
  if (state.beta !== null) parameters.set("beta", state.beta);
  document.title = `${question} · jpr`;
  if (location.hash !== `#${parameters}`) history[how](null, "", `#${parameters}`);
}

async function askFromAddress(hash) {
  const parameters = new URLSearchParams(hash.slice(1));
  const question = parameters.get("q")?.trim();
  if (!question) return;
  byId("question").value = question;
  if (parameters.has("beta")) byId("beta").value = parameters.get("beta");
  await ask(question, parameters.has("beta") ? Number(byId("beta").value) : null);
}

// ---- the start ---------------------------------------------------------------------------------

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = byId("question").value.trim();
    if (question) ask(question);
  });
  byId("k").addEventListener("change", () => byId("k").reportValidity() && update());
  byId("beta").addEventListener("input", () => {
    state.beta = Number(byId("beta").value);
    update();
  });
  byId("repeated").addEventListener("change", () => {
    state.repeated = byId("repeated").checked;
    showTree(true);
  });
  byId("reset").addEventListener("click", () => {
    state.beta = null;
    byId("beta").focus();
    update();
  });
  byId("files").addEventListener("change", () => {
    useFiles([...byId("files").files]);
    byId("files").value = "";
  });
  byId("remove").addEventListener("click", () => (removeFiles(), byId("question").focus()));
  byId("copy-json").addEventListener("click", (event) => copy(`${JSON.stringify(state.reply, null, 2)}\n`, event.currentTarget, say));
  byId("copy-context").addEventListener("click", (event) => copy(context(state.reply), event.currentTarget, say));
  byId("token-cancel").addEventListener("click", () => byId("token").close());
  document.querySelectorAll("input[name=view]").forEach((input) => input.addEventListener("change", showPassages));
  listenReply();
  watchTheme();
  addEventListener("hashchange", ({ newURL }) => askFromAddress(new URL(newURL).hash)); // location may be newer
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
    const node = state.picture?.nodes.find((one) => one.is_new && one.passage === id);
    if (node) state.picture.drawn.get(node).focus();
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
    // The page works without it.
  }
  showCorpus();
  if (!state.asking) await askFromAddress(location.hash); // a question may have been asked meanwhile
}

start();
