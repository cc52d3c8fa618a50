// Controls around a reply: dropped files, the token, the theme, copying.

import { storeToken } from "./api.js";
import { byId, make } from "./dom.js";

/** Call `use(files)` when files are dropped anywhere on the page. */
export function watchDrops(use) {
  const overlay = byId("drop");
  let inside = 0;
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    inside += 1;
    overlay.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!hasFiles(event)) return;
    inside -= 1;
    overlay.hidden = inside <= 0;
  });
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    inside = 0;
    overlay.hidden = true;
    use([...event.dataTransfer.files]);
  });
}

/** Ask for the token; resolve to whether one was given. */
export function askToken(wasWrong) {
  const dialog = byId("token");
  byId("token-title").textContent = wasWrong ? "Wrong token" : "This service requires a token";
  byId("token-text").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "use" ? byId("token-text").value.trim() : "";
      if (given) storeToken(given);
      resolve(Boolean(given));
    }, { once: true });
  });
}

const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

function showTheme() {
  byId("theme").textContent = isDark() ? "Light theme" : "Dark theme";
}

/** Let the button switch between light and dark; the default is the system's theme. */
export function watchTheme() {
  showTheme();
  byId("theme").addEventListener("click", switchTheme);
  system.addEventListener("change", showTheme);
}

function switchTheme() {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("jpr-theme", chosen);
  } catch {
    // Storage is blocked: the choice lasts for this visit.
  }
  showTheme();
}

/** Copy a text, and show on the button, and announce with `say`, whether it worked. */
export async function copy(text, button, say) {
  const done = await copied(text);
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = done ? "Copied" : "Could not copy";
  say(done ? "Copied." : "The browser did not allow copying.");
  setTimeout(() => (button.textContent = label), 1600);
}

/** Copy a text; without a secure address, by the older API. */
async function copied(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed: try the older API.
    }
  }
  const area = make("textarea", { class: "visually-hidden", "aria-hidden": "true" });
  area.value = text;
  const back = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  back?.focus();
  return done;
}
