// What is around a reply: files dropped on the page, the token, the theme, copies.

import { hold } from "./api.js";
import { byId, make } from "./dom.js";

/** Call `use(files)` when files are dropped anywhere on the page. */
export function watchDrops(use) {
  const curtain = byId("drop");
  let inside = 0;
  const holds = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => {
    if (!holds(event)) return;
    inside += 1;
    curtain.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!holds(event)) return;
    inside -= 1;
    curtain.hidden = inside <= 0;
  });
  addEventListener("dragover", (event) => holds(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    inside = 0;
    curtain.hidden = true;
    use([...event.dataTransfer.files]);
  });
}

/** Ask for the token; true where one was given. */
export function askToken(wasWrong) {
  const dialog = byId("token");
  byId("token-title").textContent = wasWrong ? "That token is not the service’s" : "This service asks for its token";
  byId("token-text").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "use" ? byId("token-text").value.trim() : "";
      if (given) hold(given);
      resolve(Boolean(given));
    }, { once: true });
  });
}

const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

function tellTheme() {
  byId("theme").textContent = isDark() ? "Light theme" : "Dark theme";
}

/** Let a button switch between light and dark; until then the system decides. */
export function watchTheme() {
  tellTheme();
  byId("theme").addEventListener("click", switchTheme);
  system.addEventListener("change", tellTheme);
}

function switchTheme() {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("jpr-theme", chosen);
  } catch {
    // Storage is closed: it holds for this visit.
  }
  tellTheme();
}

/** Copy a text, and let the button, and `say`, tell whether it was allowed. */
export async function copy(text, button, say) {
  const done = await copied(text);
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = done ? "Copied" : "Could not copy";
  say(done ? "Copied." : "The browser did not allow copying.");
  setTimeout(() => (button.textContent = label), 1600);
}

/** Copy a text; where the page is not on a secure address, by the older way. */
async function copied(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed: there is another way.
    }
  }
  const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  const back = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  back?.focus();
  return done;
}
