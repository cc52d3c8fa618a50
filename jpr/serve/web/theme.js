// The chosen theme, before anything is painted: a classic script, so that it runs in the head.
"use strict";

try {
  const chosen = localStorage.getItem("jpr-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is closed: the system's theme holds.
}
