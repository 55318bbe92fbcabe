// Theme: light, dark or system, remembered. Runs before the first paint, to avoid a flash.
(() => {
  const choices = ["auto", "light", "dark"];
  const kept = () => {
    try { return choices.includes(localStorage.theme) ? localStorage.theme : "auto"; } catch { return "auto"; }
  };
  let theme = kept();
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => { button.textContent = `Theme: ${theme}`; };
    const changed = () => document.dispatchEvent(new Event("themechange"));
    name();
    button.addEventListener("click", () => {
      theme = choices[(choices.indexOf(theme) + 1) % choices.length];
      try { localStorage.theme = theme; } catch { /* a browser that keeps nothing: for this page only */ }
      apply();
      name();
      changed();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  });
})();
